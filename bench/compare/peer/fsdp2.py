"""PyTorch's FSDP2, a unit a block: as it is, with recomputation by torch.utils.checkpoint, and with its CPU offload."""

import functools

import torch
import torch.distributed as dist
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.utils.checkpoint import create_selective_checkpoint_contexts

# The results of these are kept: products and attention, as fsdp::KeptResults::Products keeps them.
KEPT = [
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
]


# Ranks that share the state in the hybrid kind: compare.contestants.HYBRID_GROUP.
HYBRID_GROUP = 2


def mesh_of(groups):
    ranks = dist.get_world_size() // groups
    if groups == 1:
        return init_device_mesh("cpu", (ranks,))
    return init_device_mesh("cpu", (groups, ranks), mesh_dim_names=("replicas", "shards"))


def with_fsdp2(model, dtype, offload_policy=OffloadPolicy(), groups=1, **more):
    """Each of `groups` of ranks holds all of the state, divided among its ranks."""
    options = {
        "mesh": mesh_of(groups),
        "mp_policy": MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32),
        "offload_policy": offload_policy,
        **more,
    }
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def with_recomputation(model, dtype, **options):
    """Non-reentrant, and of each block before it is sharded, as torchtitan does it."""
    for index, block in enumerate(model.blocks):
        model.blocks[index] = checkpoint_wrapper(block, **options)
    return with_fsdp2(model, dtype)


def with_selective_recomputation(model, dtype):
    return with_recomputation(
        model, dtype, context_fn=functools.partial(create_selective_checkpoint_contexts, KEPT)
    )


def with_cpu_offload(model, dtype):
    """Not pinned: there is no device that memory could be pinned for."""
    return with_fsdp2(model, dtype, CPUOffloadPolicy(pin_memory=False))


def with_whole_parameters(model, dtype):
    """From the forward to the backward, as ZeRO-2."""
    return with_fsdp2(model, dtype, reshard_after_forward=False)


def with_groups(model, dtype):
    """Sharded within groups and replicated between them: HSDP."""
    return with_fsdp2(model, dtype, groups=dist.get_world_size() // HYBRID_GROUP)


WRAPPERS = {
    "fsdp2": with_fsdp2,
    "fsdp2-grad-op": with_whole_parameters,
    "fsdp2-hybrid": with_groups,
    "fsdp2-recompute-all": with_recomputation,
    "fsdp2-recompute-selective": with_selective_recomputation,
    "fsdp2-offload": with_cpu_offload,
}
