"""Two ranks of PyTorch that read a distributed checkpoint, each its shards: into DTensors, and into what fully_shard
made of a module and its optimizer."""

import os
import socket

import torch
import torch.distributed.checkpoint as dcp

RANKS = 2


def read_by_ranks(checkpoint, expected):
    """`expected`: a file of torch.save with the same state. Before anything starts threads here: ranks are forked."""
    import torch.multiprocessing as processes
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes.start_processes(rank_of_readers, args=(port, checkpoint, expected), nprocs=RANKS, start_method="fork")


def rank_of_readers(rank, port, checkpoint, expected):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(RANKS))
    torch.distributed.init_process_group("gloo")
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (RANKS,))
    state = torch.load(expected, weights_only=True)
    assert state["step"] > 0 and set(state["model"]) == set(state["optimizer"]["state"])
    read_into_tensors(mesh, checkpoint, state)
    read_into_module(mesh, checkpoint, state)
    torch.distributed.destroy_process_group()


def placements_of(tensor):
    """All that divide it, and that which does not."""
    from torch.distributed.tensor import Replicate, Shard
    return [Replicate(), *(Shard(dim) for dim in range(tensor.dim()))]


def read_into_tensors(mesh, checkpoint, state):
    """Every tensor with every placement."""
    from torch.distributed.tensor import zeros

    def empty(tensor, number):
        all_placements = placements_of(tensor)
        placement = all_placements[number % len(all_placements)]
        return zeros(tensor.shape, dtype=tensor.dtype, device_mesh=mesh, placements=[placement])

    for number in range(1 + max(tensor.dim() for tensor in state["model"].values())):
        found = {"model": {name: empty(tensor, number) for name, tensor in state["model"].items()},
                 "optim": {"state": {name: {kind: empty(tensor, number) for kind, tensor in states.items()}
                                     for name, states in state["optimizer"]["state"].items()}},
                 "step": torch.tensor(0)}
        dcp.load(found, checkpoint_id=checkpoint)
        assert found["step"] == state["step"], found["step"]
        for name, tensor in state["model"].items():
            expect_shard(found["model"][name], tensor, name)
        for name, states in state["optimizer"]["state"].items():
            assert set(states) == {"exp_avg", "exp_avg_sq", "step"}, states.keys()
            for kind, tensor in states.items():
                expect_shard(found["optim"]["state"][name][kind], tensor, f"{kind} of {name}")


def expect_shard(found, expected, name):
    """This rank's own, and the whole of all ranks'."""
    from torch.distributed.tensor import distribute_tensor
    own = distribute_tensor(expected, found.device_mesh, found.placements).to_local()
    assert found.dtype == expected.dtype and torch.equal(found.to_local(), own), name
    assert torch.equal(found.full_tensor(), expected), name


def module_of(tensors):
    """A module with parameters of these names and shapes."""
    root = torch.nn.Module()
    for name, tensor in tensors.items():
        *path, last = name.split(".")
        module = root
        for part in path:
            if part not in dict(module.named_children()):
                module.add_module(part, torch.nn.Module())
            module = module.get_submodule(part)
        module.register_parameter(last, torch.nn.Parameter(torch.zeros_like(tensor)))
    return root


def read_into_module(mesh, checkpoint, state):
    """As a program reads it that trains with FSDP2."""
    from torch.distributed.checkpoint import state_dict as states
    from torch.distributed.fsdp import fully_shard
    module = module_of(state["model"])
    for child in module.children():
        fully_shard(child, mesh=mesh)
    fully_shard(module, mesh=mesh)
    optimizer = torch.optim.AdamW(module.parameters())
    own = {"model": states.get_model_state_dict(module), "optim": states.get_optimizer_state_dict(module, optimizer)}
    found = {"model": own["model"], "optim": {"state": own["optim"]["state"]}}
    dcp.load(found, checkpoint_id=checkpoint)
    states.set_model_state_dict(module, found["model"])
    states.set_optimizer_state_dict(module, optimizer, {**own["optim"], **found["optim"]})
    assert {name for name, _ in module.named_parameters()} == set(state["model"])
    for name, parameter in module.named_parameters():
        assert parameter.to_local().numel() < parameter.numel() or parameter.shape[0] < RANKS, name
        expect_shard(parameter.detach(), state["model"][name], name)
        expected = state["optimizer"]["state"][name]
        of_parameter = optimizer.state[parameter]
        assert set(of_parameter) == set(expected), of_parameter.keys()
        for kind in ("exp_avg", "exp_avg_sq"):
            expect_shard(of_parameter[kind], expected[kind], f"{kind} of {name}")
        assert of_parameter["step"] == expected["step"], name
