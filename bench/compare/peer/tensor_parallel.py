"""A step of a GPT whose layers PyTorch divides among the ranks by DTensor over Gloo, as one rank of a job, one thread:
the counterpart of bench/contestants/train_tensor_parallel.cpp."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional

from compare.peer.arguments import add_training
from compare.peer.conversation import seconds_of
from compare.peer.model import load_model, make_batch, make_optimizer
from compare.peer.rank import run_rank, take_steps

PLAN = {
    "attn.c_attn": ColwiseParallel,
    "attn.c_proj": RowwiseParallel,
    "mlp.c_fc": ColwiseParallel,
    "mlp.c_proj": RowwiseParallel,
}


class AttentionByHeads(nn.Module):
    """With the layers of an attention. The rows of its fused QKV are in the order of the heads: query, key and value of
    head 0, then those of head 1. So each rank has whole heads."""

    def __init__(self, attention):
        super().__init__()
        self.c_attn, self.c_proj = attention.c_attn, attention.c_proj
        self.head_width = attention.c_proj.in_features // attention.heads

    def forward(self, x):
        batch, length, _ = x.shape
        parts = self.c_attn(x).view(batch, length, -1, 3, self.head_width).permute(3, 0, 2, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.c_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


def divided_model(arguments):
    model = load_model(arguments)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        block.attn = AttentionByHeads(block.attn)
        parallelize_module(block, mesh, {name: style() for name, style in PLAN.items()})
    return model


def groups_of(model):
    """DTensors and tensors are no one list for a fused optimizer."""
    parameters = list(model.parameters())
    divided = [parameter for parameter in parameters if isinstance(parameter, DTensor)]
    whole = [parameter for parameter in parameters if not isinstance(parameter, DTensor)]
    return [{"params": divided}, {"params": whole}]


class Training:
    def __init__(self, arguments):
        self.model = divided_model(arguments)
        self.optimizer = make_optimizer(arguments, groups_of(self.model))
        self.batch = make_batch(arguments, 0)  # all ranks have the same
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
    add_training(parser)
    arguments = parser.parse_args()
    run_rank(lambda: Training(arguments), {"steps": take_steps})


if __name__ == "__main__":
    main()
