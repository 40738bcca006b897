"""The programs, how they are called in these tests, and what is to be seen of their processes."""

import hashlib
import os
import pathlib
import tempfile
import time
import unittest

TRAIN, CONVERT, PLAN, MINIMAL = (os.environ.get(f"FSDP_{name}") for name in ("TRAIN", "CONVERT", "PLAN", "MINIMAL"))
TINY = ("--context 8 --width 16 --layers 1 --heads 2 --batch 1 --threads 1 --timeout 60 --sample-length 2 "
        "--validation-windows 1").split()
HANG = 120  # seconds
ENVIRONMENT = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}


def field(process, name):
    """Of /proc/PID/status, a number in hexadecimal; 0 for a process that is gone."""
    try:
        for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1], 16)
    except OSError:
        pass
    return 0


def children_of(process):
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def stream_of(process, number):
    """The file that the process has as this descriptor, none where it has none or is gone."""
    try:
        return os.readlink(f"/proc/{process}/fd/{number}")
    except OSError:
        return None


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="fsdp-processes-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.text = self.folder / "text.txt"
        self.text.write_text("".join(f"In the beginning was the word {i}.\n" for i in range(200)))
        self.environment = {**ENVIRONMENT, "FSDP_CACHE": str(self.folder / "cache")}

    def train(self, run, *more):
        return [TRAIN, "--text", self.text, *TINY, "--run", self.folder / run, *more]

    def start(self, state, command, **more):
        self.output = tempfile.TemporaryFile()
        self.addCleanup(self.output.close)
        process = state.start(command, self.output, env=self.environment, **more)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def printed(self):
        self.output.seek(0)
        return self.output.read().decode(errors="replace")

    def ending(self, state, command, **more):
        """The exit code, negative for a signal, and what was printed."""
        process = self.start(state, command, **more)
        process.wait(HANG)
        return process.returncode, self.printed()

    def wait_until(self, process, condition):
        end = time.monotonic() + HANG
        while not condition():
            self.assertIsNone(process.poll(), self.printed())
            self.assertLess(time.monotonic(), end, self.printed())
            time.sleep(0.002)

    def wait_for_steps(self, process, run, steps=3):
        metrics = self.folder / run / "metrics.jsonl"
        self.wait_until(process, lambda: metrics.exists() and metrics.read_text().count('"loss"') >= steps)

    def tensors(self, run):
        """Hashes of all files of tensors in the folder."""
        return {str(path.relative_to(self.folder / run)): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in sorted((self.folder / run).rglob("*.safetensors"))}
