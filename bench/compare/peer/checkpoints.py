"""PyTorch's torch.distributed.checkpoint of a model in FSDP2 and its AdamW, as one rank of a job over Gloo, one thread.

The calls are those of PyTorch's tutorial, with their defaults: get_state_dict and save, which syncs its files; and load
into what get_state_dict gives, and set_state_dict.
"""

import argparse

import torch.distributed.checkpoint as distributed_checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from compare.peer.arguments import add_training
from compare.peer.conversation import seconds_of
from compare.peer.rank import run_rank
from compare.peer.train import Training


class Checkpoints:
    def __init__(self, arguments):
        self.training = Training(arguments)
        wrapped = self.training.training
        self.parts = wrapped.model, wrapped.optimizer

    def state(self):
        model, optimizer = get_state_dict(*self.parts)
        return {"model": model, "optimizer": optimizer}

    def write(self, folder):
        distributed_checkpoint.save(self.state(), checkpoint_id=folder)

    def read(self, folder):
        state = self.state()
        distributed_checkpoint.load(state, checkpoint_id=folder)
        set_state_dict(*self.parts, model_state_dict=state["model"], optim_state_dict=state["optimizer"])

    def save(self, command):
        return {"seconds": seconds_of(lambda: self.write(command["folder"]))}

    def load(self, command):
        return {"seconds": seconds_of(lambda: self.read(command["folder"]))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_training(parser)
    parser.set_defaults(kind="fsdp2")  # of Training
    arguments = parser.parse_args()
    deeds = {
        "steps": lambda made, command: made.training.steps(command["count"]),
        "save": Checkpoints.save,
        "load": Checkpoints.load,
    }
    run_rank(lambda: Checkpoints(arguments), deeds)


if __name__ == "__main__":
    main()
