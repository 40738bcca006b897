"""Who takes part: for each, what to call it and the command that starts one of its ranks."""

import dataclasses

# Ours that ranks of one host can use, the fastest first; a build has some of them.
BACKENDS = ("shm", "gloo")
PEERS = {"ddp": "PyTorch DDP", "fsdp1": "PyTorch FSDP1", "fsdp2": "PyTorch FSDP2"}
LIMIT = "no communication"


@dataclasses.dataclass(frozen=True)
class Shape:
    """A GPT."""

    layers: int
    width: int
    heads: int
    vocabulary: int = 4096
    context: int = 128

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


def sharded(setup, work, backend, strategy="FullShard"):
    name = f"fsdp {backend}" if strategy == "FullShard" else f"fsdp {strategy} {backend}"
    command = [setup.program("train_sharded"), "--backend", backend, "--strategy", strategy]
    return Contestant(name, command + work.arguments(setup))


def stepping_in_backward(setup, work, backend):
    usual = sharded(setup, work, backend)
    return Contestant(f"{usual.name}, step in backward", usual.command + ["--step-in-backward"])


def with_buffers(setup, work, backend, buffers):
    """Room for more units at once, and all of it used ahead of time."""
    usual = sharded(setup, work, backend)
    options = ["--buffers", str(buffers), "--prefetch", str(buffers - 1)]
    return Contestant(f"{usual.name}, {buffers} buffers", usual.command + options)


def alone(setup, work):
    command = [setup.program("train_alone"), "--ranks", str(work.ranks), "--rank", "{rank}"]
    return Contestant(LIMIT, command + work.arguments(setup))


def alone_beside_full_cable(setup, work):
    """The limit where the network takes its part of the processors: the steps wait for nothing of what crosses it."""
    lone = alone(setup, work)
    return Contestant(f"{LIMIT}, the cable full", setup.module("full_cable") + lone.command)


def peer(setup, work, kind):
    return Contestant(PEERS[kind], setup.module("peer.train") + [kind] + work.arguments(setup))


def trainers(setup, work, peers):
    """The limit, this library on each backend, and these peers."""
    ours = [sharded(setup, work, backend) for backend in setup.backends]
    return [alone(setup, work)] + ours + [peer(setup, work, kind) for kind in peers]
