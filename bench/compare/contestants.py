"""Who takes part: for each, what to call it and the command that starts one of its ranks."""

import dataclasses

# Ours that ranks of one host can use, the fastest first; a build has some of them.
BACKENDS = ("shm", "gloo")
PEERS = {
    "ddp": "PyTorch DDP",
    "ddp-compile": "PyTorch DDP, compiled",
    "ddp-autocast": "PyTorch DDP, autocast",
    "fsdp1": "PyTorch FSDP1",
    "fsdp2": "PyTorch FSDP2",
    "fsdp2-grad-op": "PyTorch FSDP2, whole parameters kept",
    "fsdp2-hybrid": "PyTorch FSDP2, hybrid",
    "fsdp2-recompute-all": "PyTorch FSDP2, all recomputed",
    "fsdp2-recompute-selective": "PyTorch FSDP2, selective",
    "fsdp2-offload": "PyTorch FSDP2, CPU offload",
    "deepspeed": "DeepSpeed ZeRO-3",
}
# Its ranks communicate nothing.
PLAIN = "plain model"
KEPT = f"{PLAIN}, memory kept"


@dataclasses.dataclass(frozen=True)
class Shape:
    """A GPT, or a Llama."""

    layers: int
    width: int
    heads: int
    vocabulary: int = 4096
    context: int = 128
    family: str = "gpt2"

    def arguments(self):
        return [word for name, value in dataclasses.asdict(self).items() for word in (f"--{name}", str(value))]

    def __str__(self):
        return f"{self.layers} blocks of width {self.width}"


@dataclasses.dataclass(frozen=True)
class Work:
    """What every contestant of a comparison does in a step."""

    shape: Shape
    batch: int = 4  # sequences per rank
    dtype: str = "fp32"
    ranks: int = 2

    def arguments(self, setup):
        weights, _ = setup.weights_of(self.shape)
        return self.shape.arguments() + ["--batch", str(self.batch), "--dtype", self.dtype, "--weights", str(weights)]


@dataclasses.dataclass(frozen=True)
class Contestant:
    name: str
    command: list
    ranks: int | None = None  # None: as many as the comparison has


# Ranks of a group, of ours and of PyTorch's.
HYBRID_GROUP = 2


def sharded(setup, work, backend, strategy="FullShard"):
    name = f"fsdp {backend}" if strategy == "FullShard" else f"fsdp {strategy} {backend}"
    command = [setup.program("train_sharded"), "--backend", backend, "--strategy", strategy]
    if strategy.startswith("Hybrid"):
        command += ["--shard-group-size", str(HYBRID_GROUP)]
    return Contestant(name, command + work.arguments(setup))


def stepping_in_backward(setup, work, backend):
    return in_backward(sharded(setup, work, backend))


def in_backward(contestant):
    return Contestant(f"{contestant.name}, step in backward", contestant.command + ["--step-in-backward"])


def with_buffers(setup, work, backend, buffers):
    """Room for more units at once, and all of it used ahead of time."""
    usual = sharded(setup, work, backend)
    options = ["--buffers", str(buffers), "--prefetch", str(buffers - 1)]
    return Contestant(f"{usual.name}, {buffers} buffers", usual.command + options)


# What bench_train_sharded takes, and what it is called.
RECOMPUTATIONS = {"all": "all recomputed", "selective": "selective"}


def recomputing(setup, work, backend, recomputation):
    usual = sharded(setup, work, backend)
    return Contestant(f"{usual.name}, {RECOMPUTATIONS[recomputation]}", usual.command + ["--recompute", recomputation])


def within_budget(setup, work, backend, size, words):
    """Activations of at most so many bytes."""
    recomputed = recomputing(setup, work, backend, "all")
    name = f"{sharded(setup, work, backend).name}, {words}"
    return Contestant(name, recomputed.command + ["--activation-memory", str(size)])


def from_files(setup, work, backend, folder):
    """Shards, sums of gradients and optimizer state lie there."""
    usual = sharded(setup, work, backend)
    return Contestant(f"{usual.name}, from files", usual.command + ["--offload-directory", str(folder)])


def plain(setup, work):
    command = [setup.program("train_plain"), "--ranks", str(work.ranks), "--rank", "{rank}"]
    return Contestant(PLAIN, command + work.arguments(setup))


# So that memory that was freed is not given back to the system, and comes back without faults (mallopt(3)).
KEPT_MEMORY = "GLIBC_TUNABLES=glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184"


def keeping_memory(command):
    return ["env", KEPT_MEMORY] + command


def plain_keeping_memory(setup, work):
    """Why the plain model can be slower than one that communicates."""
    return Contestant(KEPT, keeping_memory(plain(setup, work).command))


def plain_beside_full_cable(setup, work):
    """Where the network takes its part of the processors: the steps wait for nothing of what crosses it."""
    usual = plain(setup, work)
    return Contestant(f"{PLAIN}, the cable full", setup.module("full_cable") + usual.command)


# What a peer needs in its environment: a folder for compiled code that does not last, no processes beside the ranks
# that compile, and DeepSpeed's word for computing on processors.
PEER_VARIABLES = {
    "ddp-compile": ["TORCHINDUCTOR_CACHE_DIR={scratch}/inductor", "TORCHINDUCTOR_COMPILE_THREADS=1"],
    "deepspeed": ["DS_ACCELERATOR=cpu"],
}


def peer(setup, work, kind):
    variables = [variable.format(scratch=setup.scratch) for variable in PEER_VARIABLES.get(kind, [])]
    command = ["env", *variables] + setup.module("peer.train") + [kind]
    return Contestant(PEERS[kind], command + work.arguments(setup))


def trainers(setup, work, peers):
    """The plain model, this library on each backend, and those of these peers that are installed."""
    ours = [sharded(setup, work, backend) for backend in setup.backends]
    return [plain(setup, work)] + ours + [peer(setup, work, kind) for kind in peers if setup.has_peer(kind)]
