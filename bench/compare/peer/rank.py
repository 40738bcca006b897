"""A rank of a job over Gloo with one thread, which trains as it is told."""

import os

import torch
import torch.distributed as dist

from compare.peer.conversation import answer, take_over_output


def run_rank(build, deeds, prepare=lambda: None):
    """Answers until the input ends. `build` makes the training, when it is asked to. Each of `deeds` takes it and a
    command."""
    output = take_over_output()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    dist.init_process_group("gloo")
    prepare()
    made = []

    def told(deed):
        return lambda command: deed(made[0], command)

    def make(command):
        made.append(build())

    answer(output, {"build": make} | {name: told(deed) for name, deed in deeds.items()})


def take_steps(training, command):
    return training.steps(command["count"])
