"""What all parts of the comparison share: the programs, the backends, the effort, and a folder for what they need."""

import pathlib
import subprocess
import sys

from compare.contestants import BACKENDS

BENCH = pathlib.Path(__file__).resolve().parent.parent


class Setup:
    """`programs` is the folder of the C++ contestants, `scratch` one for files that need not last."""

    def __init__(self, programs, scratch, quick, backends):
        self.programs = programs
        self.scratch = scratch
        self.quick = quick
        built = subprocess.check_output([self.program("train_sharded"), "--backends"], text=True).split()
        self.backends = [name for name in backends or BACKENDS if name in built]
        self.absent_backends = [name for name in backends or BACKENDS if name not in built]
        self._weights = {}

    def program(self, name):
        return str(self.programs / f"bench_{name}")

    def module(self, name):
        """The command for a Python module of this package."""
        return ["env", f"PYTHONPATH={BENCH}", sys.executable, "-m", f"compare.{name}"]

    def weights_of(self, shape):
        """The file with the first weights of a model and the number of its parameter elements."""
        if shape not in self._weights:
            path = self.scratch / f"weights-{shape.layers}-{shape.width}-{shape.vocabulary}.safetensors"
            command = self.module("peer.weights") + shape.arguments() + ["--output", str(path)]
            self._weights[shape] = path, int(subprocess.check_output(command, text=True))
        return self._weights[shape]

    def say(self, text):
        print(text, file=sys.stderr, flush=True)
