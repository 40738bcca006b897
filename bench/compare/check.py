"""Trains a tiny model with every contestant and compares the losses: do they all do the same work?

    PYTHONPATH=bench .venv/bin/python -m compare.check build/dev/bench/contestants
    PYTHONPATH=bench .venv/bin/python -m compare.check build/dev/bench/contestants --compiled    # minutes

Exits with 77, which ctest takes for skipped, where Python has no PyTorch or no safetensors; with FSDP_TEST_REQUIRE_ALL
set, that is a failure.
"""

import os
import pathlib
import sys
import tempfile

from compare import pipelines, settings, tensor_parallel
from compare.contestants import (
    HYBRID_GROUP,
    PEERS,
    RECOMPUTATIONS,
    Work,
    from_files,
    in_backward,
    peer,
    plain,
    recomputing,
    sharded,
    stepping_in_backward,
    within_budget,
)
from compare.setup import Setup, missing_packages
from compare.steps import TINY, loss_difference, trains
from compare.turns import compare_steps

SKIPPED = 77
# The order of additions within a kernel is PyTorch's own in each contestant; AdamW's first steps enlarge what differs.
FP32_TOLERANCE = 1e-4
# Ten times what rounding to the 8 bits of bf16 makes here: FSDP2 also adds up a tied weight's two gradients in them.
BF16_TOLERANCE = 2e-3
# fp16 has 3 bits more.
FP16_TOLERANCE = 1e-3
# DeepSpeed reduces gradients in bf16 as well.
BF16_REDUCTION_TOLERANCE = 6e-3

FSDP2_VARIANTS = ["fsdp2-recompute-all", "fsdp2-recompute-selective", "fsdp2-offload"]


# Bytes of activations that are fewer than this model's, and enough for it.
LITTLE = 900_000


def tolerance_of(dtype, name):
    if dtype != "bf16":
        return {"fp32": FP32_TOLERANCE, "fp16": FP16_TOLERANCE}[dtype]
    return BF16_REDUCTION_TOLERANCE if name == PEERS["deepspeed"] else BF16_TOLERANCE


def check(setup, work, contestants):
    """Prints every loss and yields what differs."""
    found = compare_steps(setup, contestants, work.ranks)
    yield from (f"{work.dtype} {each.name}: left out" for each in contestants if each.name not in found)
    for name in found:
        losses = found[name]["losses"]
        print(f"{work.dtype} {name}: {' '.join(f'{loss:.6f}' for loss in losses)}")
        if not trains(name):
            continue
        difference, tolerance = loss_difference(found, name), tolerance_of(work.dtype, name)
        if not difference <= tolerance:
            yield f"{work.dtype} {name}: the losses differ by {difference:.1e}, expected at most {tolerance:.0e}"
        if not losses[-1] < losses[0]:
            yield f"{work.dtype} {name}: the loss does not fall, from {losses[0]} to {losses[-1]}"


def problems(setup, compiled):
    """`compiled` are the kinds of peers that compile."""
    for dtype, kinds in (
        ("fp32", ["ddp", "fsdp1", "fsdp2", *FSDP2_VARIANTS, "deepspeed", *compiled]),
        ("bf16", ["fsdp2", "ddp-autocast", "deepspeed"]),
    ):
        work = Work(TINY, dtype=dtype)
        ours = [sharded(setup, work, backend) for backend in setup.backends]
        ours += [stepping_in_backward(setup, work, "auto"), sharded(setup, work, "auto", "NoShard")]
        ours += [recomputing(setup, work, "auto", recomputation) for recomputation in RECOMPUTATIONS]
        ours.append(within_budget(setup, work, "auto", LITTLE, "budget"))
        ours.append(from_files(setup, work, "auto", setup.scratch / f"files-{dtype}"))
        ours.append(in_backward(from_files(setup, work, "auto", setup.scratch / f"files-in-backward-{dtype}")))
        peers = [peer(setup, work, kind) for kind in kinds if setup.has_peer(kind)]
        yield from check(setup, work, [plain(setup, work)] + ours + peers)


def settings_problems(setup):
    """Of a Llama, of fp16, and of groups of ranks."""
    work = Work(settings.QUICK_LLAMA)
    yield from check(setup, work, [sharded(setup, work, "auto"), peer(setup, work, "fsdp2")])
    work = Work(TINY, dtype="fp16")
    yield from check(setup, work, [sharded(setup, work, "auto"), peer(setup, work, "fsdp2")])
    work = Work(TINY, ranks=2 * HYBRID_GROUP)
    ours = [sharded(setup, work, "auto"), sharded(setup, work, "auto", "HybridShard")]
    yield from check(setup, work, ours + [peer(setup, work, kind) for kind in ("fsdp2-hybrid", "fsdp2-grad-op")])


def parallelism_problems(setup):
    """Of pipelines and divided layers, whose losses are those of one process."""
    pipeline = pipelines.run_work(setup, pipelines.works(setup.quick)[0])
    layers = tensor_parallel.run_work(setup, tensor_parallel.works(setup.quick)[0])
    for found in (pipeline["contestants"], layers["contestants"]):
        alone = found[pipelines.ALONE]["losses"]
        for name, of_name in found.items():
            losses = of_name["losses"]
            print(f"fp32 {name}: {' '.join(f'{loss:.6f}' for loss in losses)}")
            difference = max(abs(a - b) for a, b in zip(losses, alone))
            if not difference <= FP32_TOLERANCE:
                yield f"{name}: one process has losses {difference:.1e} apart, expected at most {FP32_TOLERANCE:.0e}"
            if not losses[-1] < losses[0]:
                yield f"{name}: the loss does not fall, from {losses[0]} to {losses[-1]}"


def main():
    if missing := missing_packages():
        print(f"nothing is compared: Python has no {' and no '.join(missing)}")
        return 1 if os.environ.get("FSDP_TEST_REQUIRE_ALL") else SKIPPED
    with tempfile.TemporaryDirectory(prefix="fsdp-bench-") as scratch:
        setup = Setup(pathlib.Path(sys.argv[1]), pathlib.Path(scratch), quick=True, backends=None)
        found = list(problems(setup, ["ddp-compile"] if "--compiled" in sys.argv else []))
        found += settings_problems(setup)
        found += parallelism_problems(setup)
    print("\n".join(found) or "all contestants train alike")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
