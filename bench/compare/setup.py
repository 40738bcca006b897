"""What all parts of the comparison share: the programs, the backends, the effort, and a folder for what they need."""

import importlib.util
import pathlib
import subprocess
import sys

from compare.contestants import BACKENDS

BENCH = pathlib.Path(__file__).resolve().parent.parent


def missing_packages():
    """What the contestants of PyTorch need and this Python does not have."""
    return [name for name in ("torch", "safetensors") if not has_package(name)]


def has_package(name):
    return importlib.util.find_spec(name) is not None


def backends_of(programs, wanted):
    """Those of the wanted backends (none: all that are known here) that the build has, and those that it has not."""
    built = subprocess.check_output([programs / "bench_train_sharded", "--backends"], text=True).split()
    names = wanted or BACKENDS
    return [name for name in names if name in built], [name for name in names if name not in built]


def trainer_of(programs):
    """fsdp-train of the same build."""
    return (programs / "../../apps/fsdp-train").resolve()


class Setup:
    """`programs` is the folder of the C++ contestants in a build, `scratch` one for files that need not last."""

    def __init__(self, programs, scratch, quick, backends):
        self.programs = programs
        self.trainer = trainer_of(programs)
        self.scratch = scratch
        self.quick = quick
        self.sources = {}  # of other trainers, by name
        self.backends, self.absent_backends = backends_of(programs, backends)
        self._weights = {}

    def program(self, name):
        return str(self.programs / f"bench_{name}")

    def module(self, name):
        """The command for a Python module of this package."""
        return ["env", f"PYTHONPATH={BENCH}", sys.executable, "-m", f"compare.{name}"]

    def has_peer(self, kind):
        return kind != "deepspeed" or has_package("deepspeed")

    def weights_of(self, shape):
        """The file with the first weights of a model and the number of its parameter elements."""
        if shape not in self._weights:
            path = self.scratch / f"weights-{len(self._weights)}.safetensors"
            command = self.module("peer.weights") + shape.arguments() + ["--output", str(path)]
            self._weights[shape] = path, int(subprocess.check_output(command, text=True))
        return self._weights[shape]

    def say(self, text):
        print(text, file=sys.stderr, flush=True)
