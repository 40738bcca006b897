"""PyTorch's collectives over Gloo, by the calls that its FSDP makes, and on whole tensors: one rank of a job."""

import torch
import torch.distributed as dist

from compare.peer import world_calls
from compare.peer.conversation import answer, take_over_output
from compare.peer.repetitions import ELEMENT_BYTES, measure

VALUES = 8


class Unit:
    def __init__(self, command):
        ranks = dist.get_world_size()
        shard_numel = command["bytes"] // ELEMENT_BYTES // ranks
        self.full, self.shard = torch.ones(shard_numel * ranks), torch.ones(shard_numel)
        self.value, self.sum = 0, 0.0

    def gather(self):
        """The owner writes its shard, another value each time, as in bench/contestants/collectives.cpp."""
        self.value = self.value % VALUES + 1
        self.shard.fill_(self.value)
        dist.all_gather_into_tensor(self.full, self.shard)

    def gather_and_read(self):
        self.gather()
        self.sum = self.full.sum().item()

    def reduce(self):
        dist.reduce_scatter_tensor(self.shard, self.full)


def gather(command):
    return measure(command, Unit(command).gather)


def gather_and_read(command):
    unit = Unit(command)
    return measure(command, unit.gather_and_read) | {"sum": unit.sum}


def reduce(command):
    return measure(command, Unit(command).reduce)


@torch.no_grad()
def main():
    output = take_over_output()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    of_units = {"gather": gather, "gather and read": gather_and_read, "reduce": reduce}
    answer(output, of_units | world_calls.deeds())


if __name__ == "__main__":
    main()
