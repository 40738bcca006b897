"""PyTorch's collectives over Gloo, by the calls that its FSDP makes: one rank of a job."""

import torch
import torch.distributed as dist

from compare.peer.conversation import answer, seconds_of, take_over_output

ELEMENT_BYTES = 4  # fp32


def measure(command, operation):
    """Once unmeasured, so that memory is there; then the seconds of each repetition."""
    operation()
    return {"seconds": [seconds_of(operation) for _ in range(command["repetitions"])]}


def full_and_shard(command):
    shard_numel = command["bytes"] // ELEMENT_BYTES // dist.get_world_size()
    return torch.ones(shard_numel * dist.get_world_size()), torch.ones(shard_numel)


def gather(command):
    full, shard = full_and_shard(command)
    return measure(command, lambda: dist.all_gather_into_tensor(full, shard))


def reduce(command):
    full, shard = full_and_shard(command)
    return measure(command, lambda: dist.reduce_scatter_tensor(shard, full))


def main():
    output = take_over_output()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    answer(output, {"gather": gather, "reduce": reduce})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
