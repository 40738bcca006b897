"""fsdp-train whose ranks are killed: its processes, its record, and the time from a kill to the end of the next
step."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import time

from compare.job import LOG_TAIL, ContestantFailed

LOOK_SECONDS = 0.01
MOST_SECONDS = 300  # until the next step: more is a hang
TAIL = 1 << 18  # bytes of the record's end, which has all of the newest start when that has only begun
START, EVENT = b'"event":"run_start"', b'"event"'
MEMORY, CHECKPOINT, BEGINNING = "memory", "a checkpoint", "the beginning"  # where it can go on from


@dataclasses.dataclass(frozen=True)
class Seen:
    """Of the end of a record; 0: it has none there."""

    process: int = 0  # rank 0's, of the newest start
    step: int = 0  # the newest of that start


def last_lines(record):
    """Those that are whole."""
    with open(record, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - TAIL))
        lines = file.read().split(b"\n")
    return lines[1 if size > TAIL else 0 : -1]


def seen_in(record):
    try:
        lines = last_lines(record)
        start = next((at for at in reversed(range(len(lines))) if START in lines[at]), None)
        process = 0 if start is None else json.loads(lines[start])["process"]
        steps = (line for line in reversed(lines[start or 0 :]) if EVENT not in line)
        return Seen(process, json.loads(next(steps, b'{"step": 0}'))["step"])
    except (FileNotFoundError, ValueError, KeyError):
        return Seen()  # it is being made, or cut


def source_in(output):
    """From where ranks went on, as they say it."""
    found = re.findall(r"goes on from (memory|\S*/step-\d)", output)
    if not found:
        return BEGINNING
    return MEMORY if found[-1] == "memory" else CHECKPOINT


def is_alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


@dataclasses.dataclass(frozen=True)
class Recovery:
    source: str
    seconds: float  # from the kill to the end of the next step that is recorded


class KilledTrainer:
    """A run in a folder of its own, which ends with the scope, by SIGKILL."""

    def __init__(self, command, folder):
        self.run, self.output = folder / "run", folder / "output.txt"
        self.record = self.run / "metrics.jsonl"
        self.starts = {0}  # processes of starts that were seen
        self.stamp, self.seen = None, Seen()
        words = [str(word) for word in [*command, "--run", self.run]]
        with open(self.output, "wb") as output:
            self.launcher = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def look(self):
        """Reads the record only where it has changed: ranks need the processors."""
        with contextlib.suppress(FileNotFoundError):
            status = self.record.stat()
            stamp = status.st_size, status.st_mtime_ns
            if stamp != self.stamp:
                self.stamp, self.seen = stamp, seen_in(self.record)
        return self.seen

    def wait(self, condition, what):
        end = time.monotonic() + MOST_SECONDS
        while not condition():
            if self.launcher.poll() is not None or time.monotonic() > end:
                raise ContestantFailed(f"fsdp-train: there was no {what}. It wrote:\n{self.said()[-LOG_TAIL:]}")
            time.sleep(LOOK_SECONDS)

    def wait_for_start(self, what):
        """Of ranks that were not seen before, which have done a step."""
        self.wait(lambda: self.look().step and self.look().process not in self.starts, what)
        self.starts.add(self.seen.process)

    def wait_for_checkpoint(self):
        self.wait_for_start("first step")
        self.wait(self.has_checkpoint, "checkpoint")

    def has_checkpoint(self):
        """A whole one, whose name is its step alone."""
        return any(path.parent.name[5:].isdigit() for path in self.run.glob("step-*/manifest.json"))

    def end_of_step(self):
        """Of the next one: the moment, and its number."""
        before = self.look().step
        self.wait(lambda: self.look().step not in (0, before), "next step")
        return time.monotonic(), self.seen.step

    def ranks(self):
        """Forked by the launcher, which has no other children."""
        children = pathlib.Path(f"/proc/{self.launcher.pid}/task/{self.launcher.pid}/children")
        try:
            return [int(word) for word in children.read_text().split()]
        except OSError:
            return []  # it has ended

    def kill_one(self, rng):
        """A random rank, of ranks that have done a step."""
        said, victim = len(self.said()), rng.choice(self.ranks())
        begin = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        self.wait_for_start("step after a kill")
        seconds = time.monotonic() - begin
        return Recovery(source_in(self.said()[said:]), seconds)

    def said(self):
        return self.output.read_text(errors="replace")

    def step_seconds(self):
        """By step, as the record has them now: of a step that was repeated the last time."""
        steps = {}
        for line in self.record.read_bytes().split(b"\n")[:-1]:
            with contextlib.suppress(ValueError, KeyError):  # an event, or cut off by a kill
                record = json.loads(line)
                steps[record["step"]] = record["step_seconds"]
        return steps

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        ranks = self.ranks()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.launcher.pid, signal.SIGKILL)
        self.launcher.wait()
        while any(map(is_alive, ranks)):
            time.sleep(LOOK_SECONDS)
