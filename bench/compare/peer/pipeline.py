"""A step of torch.distributed.pipelining over Gloo, as one rank of a job, one thread: the counterpart of
bench/contestants/train_pipeline.cpp."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining
from torch.nn import functional

from compare.peer.arguments import add_training
from compare.peer.conversation import seconds_of
from compare.peer.model import load_model, make_batch, make_optimizer
from compare.peer.rank import run_rank, take_steps

# By our names: PyTorch's class that has the same order of passes. A class of one stage a rank takes no list.
SCHEDULES = {
    "AllForwardAllBackward": (pipelining.ScheduleGPipe, True),
    "OneForwardOneBackward": (pipelining.Schedule1F1B, True),
    "Interleaved": (pipelining.ScheduleInterleaved1F1B, False),
    "ZeroBubble": (pipelining.ScheduleInterleavedZeroBubble, False),
}
PASSES = ("forward_one_chunk", "backward_one_chunk", "backward_weight_one_chunk")


class Embedding(nn.Module):
    """Tokens [batch, length] to [batch, length, width]."""

    def __init__(self, model):
        super().__init__()
        self.wte, self.wpe = model.transformer["wte"], model.transformer["wpe"]

    def forward(self, tokens):
        return self.wte(tokens) + self.wpe(torch.arange(tokens.size(1)))


class Head(nn.Module):
    """[batch, length, width] to logits. Not tied, but it begins with the values of the token embedding."""

    def __init__(self, model):
        super().__init__()
        self.ln_f = model.transformer["ln_f"]
        self.weight = nn.Parameter(model.transformer["wte"].weight.detach().clone())

    def forward(self, x):
        return functional.linear(self.ln_f(x), self.weight)


def loss_of(logits, targets):
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def stages_of(arguments):
    """This rank's: stage s is on rank s % ranks."""
    model = load_model(arguments)
    blocks = [Embedding(model), *model.blocks, Head(model)]
    stages, first = [], 0
    for number, count in enumerate(arguments.cuts):
        if number % dist.get_world_size() == dist.get_rank():
            module = nn.Sequential(*blocks[first : first + count])
            stages.append(pipelining.PipelineStage(module, number, len(arguments.cuts), torch.device("cpu")))
        first += count
    return stages


class Busy:
    """The seconds of the passes of these stages, and of the loss."""

    def __init__(self, stages):
        self.seconds = 0
        for stage in stages:
            for name in PASSES:
                setattr(stage, name, self.timed(getattr(stage, name)))

    def timed(self, function):
        def call(*arguments, **options):
            results = []
            self.seconds += seconds_of(lambda: results.append(function(*arguments, **options)))
            return results[0]

        return call


class Training:
    def __init__(self, arguments):
        stages = stages_of(arguments)
        self.busy = Busy(stages)
        schedule, alone = SCHEDULES[arguments.schedule]
        loss = self.busy.timed(loss_of)
        self.schedule = schedule(stages[0] if alone else stages, arguments.micro_batches, loss_fn=loss)
        batches = [make_batch(arguments, number) for number in range(arguments.micro_batches)]
        tokens, targets = map(torch.cat, zip(*batches))
        self.inputs = [tokens] if stages[0].is_first else []
        self.targets = {"target": targets} if stages[-1].is_last else {}
        parameters = [parameter for stage in stages for parameter in stage.submod.parameters()]
        self.optimizer = make_optimizer(arguments, parameters)
        self.losses, self.passes, self.busy_seconds = [], [], []

    def run_passes(self):
        losses = []
        self.schedule.step(*self.inputs, **self.targets, losses=losses, return_outputs=False)
        self.losses.append(sum(loss.item() for loss in losses) / self.schedule._n_microbatches)

    def step(self):
        self.busy.seconds = 0
        self.passes.append(seconds_of(self.run_passes))
        self.busy_seconds.append(self.busy.seconds)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def steps(self, count):
        self.losses, self.passes, self.busy_seconds = [], [], []
        seconds = [seconds_of(self.step) for _ in range(count)]
        return {"seconds": seconds, "losses": self.of_all(self.losses, dist.ReduceOp.SUM), "idle": self.idle()}

    def of_all(self, values, op):
        """Of each step, over the ranks. Not measured."""
        values = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(values, op)
        return values.tolist()

    def idle(self):
        """Of each step, the mean share in which a rank ran no pass: as PipelineReport::idle_share."""
        longest = self.of_all(self.passes, dist.ReduceOp.MAX)
        busy = self.of_all(self.busy_seconds, dist.ReduceOp.SUM)
        return [1 - of_step / dist.get_world_size() / step for of_step, step in zip(busy, longest)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_training(parser)
    parser.add_argument("--schedule", choices=SCHEDULES, required=True)
    parser.add_argument("--cuts", type=int, nargs="+", required=True, help="blocks of each stage")
    parser.add_argument("--micro-batches", type=int, required=True, help="in a step")
    arguments = parser.parse_args()
    run_rank(lambda: Training(arguments), {"steps": take_steps})


if __name__ == "__main__":
    main()
