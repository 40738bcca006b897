"""The parts of the check on a GPU, most important first: if time runs out, the last are left out."""

import sys

from check import read
from check.runner import Part

SMALL = {"batch": 8, "context": 1024}
TINY = {"batch": 1, "context": 256, "steps": 43}
BIG = {"layers": 24, "width": 2048, "heads": 16, "batch": 4, "context": 1024, "steps": 10}

# Two processes with one GPU: NCCL takes them for ranks of two hosts, which talk over loopback.
LOOPBACK = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "GLOO_SOCKET_IFNAME": "lo"}


# With this variable cuBLAS gives the same bits in each run.
SAME_BITS = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


def options(sizes):
    return [f"--{name}={value}" for name, value in sizes.items()]


def two_ranks(command, port, variables={}):
    return [(command, {**variables, **LOOPBACK, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
                       "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                       "NCCL_HOSTID": str(rank), "TORCHELASTIC_RUN_ID": "gpu-check"}) for rank in range(2)]


def all_parts(folder, scratch, variables):
    """`folder` is the packed one. Parts write into `scratch`. Programs in `folder` need `variables`."""
    ours, kinds = folder / "bin/bench_gpu_speed", folder / "bin/bench_gpu_models"
    peer = [sys.executable, folder / "peer.py"]

    def speed(name, variant, sizes, limit=40.0):
        command = [ours, f"--variant={variant}", *options(sizes)]
        return Part(f"{name}: {variant}", [(command, variables)], read.step, limit)

    def beside(name, variant, sizes):
        return Part(f"{name}: PyTorch {variant}", [[*peer, f"--variant={variant}", *options(sizes)]], read.step, 40)

    bits, exact = "bits of plain LibTorch", {**variables, **SAME_BITS}
    return [
        Part("tests", [([folder / "bin/test_cuda"], exact)], read.gtest, 120, "bits", accepted=(0, 77)),
        Part(f"{bits}: one rank", [([kinds], exact)], read.kinds, 60, "bits"),
        Part(f"{bits}: two ranks, staged", [([kinds, "--ranks=2"], exact)], read.kinds, 60, "bits"),
        Part(f"{bits}: two ranks, NCCL", two_ranks([kinds, "--backend=nccl"], 29521, exact), read.kinds, 60, "bits"),
        speed("124 M, 8 x 1024", "sharded", SMALL),
        beside("124 M, 8 x 1024", "fsdp2", SMALL),
        trainer(folder, scratch, variables),
        beside("124 M, 8 x 1024", "nano", SMALL),
        speed("1.3 B, 4 x 1024", "sharded", BIG),
        beside("1.3 B, 4 x 1024", "fsdp2", BIG),
        speed("1.3 B, 4 x 1024", "sharded, activations on host", BIG),
        speed("1.3 B, 4 x 1024", "sharded, shards on host", {**BIG, "steps": 5}, 60),
        speed("124 M, 1 x 256", "sharded", TINY),
        beside("124 M, 1 x 256", "plain", TINY),
        beside("124 M, 1 x 256", "fsdp2", TINY),
        speed("124 M, 8 x 1024", "sharded, clipped", SMALL),
        beside("124 M, 8 x 1024", "fsdp2, clipped", SMALL),
        beside("124 M, 8 x 1024", "ddp", SMALL),
        beside("124 M, 8 x 1024", "plain", SMALL),
        speed("124 M, 8 x 1024", "plain", SMALL),
        speed("1.3 B, 4 x 1024", "sharded, recomputed", BIG),
        beside("1.3 B, 4 x 1024", "fsdp2, recomputed", BIG),
        Part("124 M, 4 x 1024, two NCCL ranks: sharded",
             two_ranks([ours, "--backend=nccl", "--batch=4", "--steps=10"], 29522, variables), read.step, 40),
        Part("124 M, 4 x 1024, two NCCL ranks: PyTorch fsdp2",
             two_ranks([*peer, "--variant=fsdp2", "--batch=4", "--steps=10"], 29523), read.step, 40),
    ]


def trainer(folder, scratch, variables):
    """fsdp-train on made-up tokens; PyTorch's nano is the same step in a loop of its own."""
    run = scratch / "run"
    command = [folder / "bin/fsdp-train", "--data", scratch / "tokens.bin", "--run", run, "--ranks", 1, "--steps", 30,
               "--layers", 12, "--width", 768, "--heads", 12, "--vocabulary", 50304, "--context", 1024, "--batch", 8,
               "--param-dtype", "bf16"]
    return Part("124 M, 8 x 1024: fsdp-train", [(command, variables)], read.trainer(run / "metrics.jsonl"), 60)
