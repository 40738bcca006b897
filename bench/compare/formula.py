"""What docs/memory.md says that FullShard and AdamW hold on a rank for the GPT of the comparison."""

import json
import math
import re
import struct

ALIGNMENT_NUMEL = 64
BUFFERS = 2  # for full units, the default of fsdp::Options
# One gradient is completed while another is reduced, and the tied embedding's is open throughout the backward.
OPEN_GRADIENTS = 3


def numels(file):
    """By parameter, from the header of a safetensors file."""
    with open(file, "rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        header = json.loads(stream.read(length))
    return {name: math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}


def round_up(numel):
    return -(-numel // ALIGNMENT_NUMEL) * ALIGNMENT_NUMEL


def slices(file, ranks):
    """Of each unit (a block, or what lies outside of them) the elements that a rank owns."""
    units = {}
    for name, numel in numels(file).items():
        block = re.search(r"\.h\.\d+\.", name)
        unit = block.group() if block else ""
        units[unit] = units.get(unit, 0) + round_up(numel)
    return [round_up(-(-numel // ranks)) for numel in units.values()]


def bytes_by_part(file, ranks, dtype, backend):
    """As `ShardedModel::memory()` names the parts."""
    owned = slices(file, ranks)
    shard, largest = sum(owned), ranks * max(owned)
    element_bytes = 2 if dtype == "bf16" else 4
    arriving = 0 if backend == "shm" else (ranks - 1) / ranks
    return {
        "parameters": 4 * shard + (2 * shard if dtype == "bf16" else 0),
        "gradients": 4 * shard,
        "optimizer": 8 * shard,
        "full parameters": 0 if backend == "shm" else element_bytes * BUFFERS * largest,
        "full gradients": 4 * OPEN_GRADIENTS * largest * (1 + arriving),
    }
