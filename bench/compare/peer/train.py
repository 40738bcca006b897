"""A training step of PyTorch, as one rank of a job: DDP, FSDP1 or FSDP2 over Gloo, one thread."""

import argparse
import os

import torch
import torch._dynamo  # otherwise loaded by the first optimizer, and counted as memory of the model
import torch.distributed as dist
from safetensors.torch import load_file
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from compare.peer.arguments import add_training, make_model
from compare.peer.conversation import answer, seconds_of, take_over_output
from compare.peer.gpt import Block


def with_ddp(model, dtype):
    if dtype != torch.float32:
        raise ValueError("DDP keeps no fp32 copy of parameters that have fewer bits")
    return torch.nn.parallel.DistributedDataParallel(model)


def with_fsdp1(model, dtype):
    return FullyShardedDataParallel(
        model,
        auto_wrap_policy=ModuleWrapPolicy({Block}),
        device_id=torch.device("cpu"),
        mixed_precision=MixedPrecision(param_dtype=dtype, reduce_dtype=torch.float32),
        use_orig_params=True,
    )


def with_fsdp2(model, dtype):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


WRAPPERS = {"ddp": with_ddp, "fsdp1": with_fsdp1, "fsdp2": with_fsdp2}


def make_batch(arguments, rank):
    """One rank's tokens and targets [batch, context], the same in every step."""
    generator = torch.Generator().manual_seed(1000 + rank)  # as in bench/contestants/training.cpp
    windows = torch.randint(arguments.vocabulary, (arguments.batch, arguments.context + 1), generator=generator)
    return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


class Training:
    def __init__(self, arguments):
        model = make_model(arguments)
        model.load_state_dict(load_file(arguments.weights))
        dtype = torch.bfloat16 if arguments.dtype == "bf16" else torch.float32
        self.model = WRAPPERS[arguments.kind](model, dtype)
        # As fsdp::AdamW's defaults.
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=arguments.lr, weight_decay=1e-2, fused=True)
        self.batch = make_batch(arguments, dist.get_rank())
        self.losses = []

    def step(self):
        loss = self.model(*self.batch)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses.append(loss.item())

    def steps(self, count):
        self.losses = []
        return {"seconds": [seconds_of(self.step) for _ in range(count)], "losses": self.losses}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=WRAPPERS)
    add_training(parser)
    arguments = parser.parse_args()
    output = take_over_output()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    dist.init_process_group("gloo")
    made = []
    answer(
        output,
        {
            "build": lambda command: made.append(Training(arguments)),
            "steps": lambda command: made[0].steps(command["count"]),
            "memory": lambda command: {},
        },
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
