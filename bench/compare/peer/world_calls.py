"""torch.distributed's collectives on whole tensors, as bench/contestants/world_calls.cpp has them of a World."""

import time

import torch
import torch.distributed as dist

from compare.peer.repetitions import ELEMENT_BYTES, compute_for_a_moment


class Operands:
    """What a call works on: a tensor of the bytes asked for, its parts for each rank, and room for as much."""

    def __init__(self, command):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.whole = torch.full((command["bytes"] // ELEMENT_BYTES,), float(self.rank + 1))
        self.parts = list(self.whole.chunk(self.size))
        self.other = torch.zeros_like(self.whole)
        self.other_parts = list(self.other.chunk(self.size))
        self.own, self.part = self.parts[self.rank], self.other_parts[self.rank]


def broadcast(of):
    dist.broadcast(of.whole, 0)
    return of.whole


def broadcast_one_by_one(of):
    if of.rank > 0:
        dist.recv(of.whole, 0)
    for peer in range(1, of.size if of.rank == 0 else 1):
        dist.send(of.whole, peer)
    return of.whole


def all_reduce(of):
    dist.all_reduce(of.whole)
    return of.whole


def reduce(of):
    dist.reduce(of.whole, 0)
    return of.whole


def reduce_and_broadcast(of):
    reduce(of)
    return broadcast(of)


def reduce_scatter(of):
    dist.reduce_scatter(of.part, of.parts)
    return of.part


def all_gather(of):
    dist.all_gather(of.other_parts, of.own)
    return of.other


def gather(of):
    dist.gather(of.own, of.other_parts if of.rank == 0 else None, 0)
    return of.other


def scatter(of):
    dist.scatter(of.part, of.parts if of.rank == 0 else None, 0)
    return of.part


def all_to_all(of):
    dist.all_to_all(of.other_parts, of.parts)
    return of.other


def ping_pong(of):
    """There and back between each even rank and the next one."""
    peer = of.rank ^ 1
    if of.rank < peer:
        dist.send(of.whole, peer)
    dist.recv(of.other, peer)
    if of.rank > peer:
        dist.send(of.other, peer)
    return of.other


CALLS = {
    "broadcast": broadcast,
    "broadcast, one by one": broadcast_one_by_one,
    "all_reduce": all_reduce,
    "reduce": reduce,
    "reduce, broadcast": reduce_and_broadcast,
    "reduce_scatter": reduce_scatter,
    "all_gather": all_gather,
    "gather": gather,
    "scatter": scatter,
    "all_to_all": all_to_all,
    "ping-pong": ping_pong,
}


def measure(command, call):
    """The first call, on each rank's number, is not measured: its result is answered. The others are of zeros. Before
    each one all ranks meet."""
    operands = Operands(command)
    compute_for_a_moment()
    result = call(operands).sum(dtype=torch.float64).item()
    operands.whole.zero_()
    begins, ends = [], []
    for _ in range(command["repetitions"]):
        dist.barrier()
        begins.append(time.perf_counter())
        call(operands)
        ends.append(time.perf_counter())
    return {"sum": result, "begins": begins, "ends": ends}


def deeds():
    return {f"call: {name}": lambda command, call=call: measure(command, call) for name, call in CALLS.items()}
