"""A run of fsdp-train on four ranks that is killed in part: its processes, its record, and the time from each kill to
the next step. It has no end of its own, so that no machine is too fast or too slow for what is to happen; when it has
happened the run is stopped, and one that nobody disturbs does as many steps."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import time

from soak.cases import say
from soak.trainer import checkpoints

RANKS = 4
ENDLESS = 1_000_000
GOES_ON_LATER = 75  # the exit code of a run that was asked to stop
LONGEST_MOMENT = 0.5  # seconds that a run is left alone before it is disturbed
MOST_SECONDS = 120  # until the next step: more is a hang
ARGUMENTS = ("--context 32 --width 32 --layers 2 --heads 2 --batch 4 --threads 1 --timeout 30 --schedule constant "
             "--warmup 0 --sample-length 2 --validation-windows 1 --keep 3").split()


class Stuck(Exception):
    """The job does not go on."""


@dataclasses.dataclass(frozen=True)
class Start:
    """The newest start of a run, as its record has it."""

    process: int = 0  # rank 0's; 0: there was none
    ranks: int = 0
    step: int = 0  # the newest since; 0: none


def newest_start(run):
    try:
        data = (run / "metrics.jsonl").read_bytes()
    except FileNotFoundError:
        return Start()
    begin = data.rfind(b"\n", 0, max(0, data.rfind(b'"event":"run_start"'))) + 1
    lines = [line for line in data[begin:].split(b"\n")[:-1] if line]
    try:
        start = json.loads(lines[0])
        step = next((json.loads(line)["step"] for line in reversed(lines) if b'"event"' not in line), 0)
        return Start(start["process"], start["ranks"], step)
    except (ValueError, KeyError, IndexError):
        return Start()  # it is being cut


class Job:
    """In a folder of its own. Who makes it ends it, whatever its launchers have left."""

    def __init__(self, build, folder, text):
        self.program, self.folder, self.text = build / "apps" / "fsdp-train", folder, text
        self.run, self.output = folder / "run", folder / "output.txt"
        self.started = []  # launchers
        self.times = []  # of kills: from where it went on, and the seconds to the next step

    def command(self, *more, run=None, steps=ENDLESS, save_every=20):
        return [str(self.program), *ARGUMENTS, "--text", str(self.text), "--run", str(run or self.run), "--steps",
                str(steps), "--save-every", str(save_every), *more]

    def start(self, command, **variables):
        environment = {**os.environ, "FSDP_CACHE": str(self.folder / "cache"), "CUDA_VISIBLE_DEVICES": "",
                       "LC_ALL": "C.UTF-8", "FSDP_SOAK_JOB": str(self.folder), **variables}
        with self.output.open("ab") as output:
            self.started.append(subprocess.Popen(
                command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment,
                start_new_session=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))))
        return self.started[-1]

    def processes(self, name=None):
        """All that are alive, whoever their parents are now; with `name` those of this program."""
        return sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit() and self.has(entry, name))

    def has(self, process, name=None):
        proc = pathlib.Path(f"/proc/{process}")
        try:
            is_alive = f"FSDP_SOAK_JOB={self.folder}\0".encode() in (proc / "environ").read_bytes()
            return is_alive and name in (None, (proc / "comm").read_text().strip())
        except OSError:
            return False

    def ranks(self):
        launchers = [process.pid for process in self.started]
        return [process for process in self.processes("fsdp-train") if process not in launchers]

    def wait(self, condition, what, may_have_ended=False):
        end = time.monotonic() + MOST_SECONDS
        while not condition():
            if not may_have_ended and all(process.poll() is not None for process in self.started):
                raise Stuck(f"the job has ended, and there was no {what}")
            if time.monotonic() > end:
                raise Stuck(f"there was no {what} within {MOST_SECONDS} s")
            time.sleep(0.01)

    def wait_for_end(self, launcher, what):
        """Returns its exit code."""
        self.wait(lambda: launcher.poll() is not None, f"end of {what}", may_have_ended=True)
        return launcher.returncode

    def wait_while_it_steps(self, launcher, run):
        """Until its end. Each of its steps has the time of one: a busy machine may take long for all."""
        while launcher.poll() is None:
            before = newest_start(run).step
            self.wait(lambda: launcher.poll() is not None or newest_start(run).step != before, "step",
                      may_have_ended=True)

    def stepping(self):
        """The newest start, if its ranks are alive and have done a step. A record that was cut may end with an older
        one, whose ranks are gone."""
        start = newest_start(self.run)
        return start if start.step and self.has(start.process) else Start()

    def wait_for_ranks(self, ranks):
        self.wait(lambda: self.stepping().ranks == ranks, f"step of {ranks} ranks")

    def wait_for_checkpoint(self):
        self.wait(lambda: checkpoints(self.run) and self.stepping().step, "checkpoint")

    @contextlib.contextmanager
    def until_next_step(self, what, is_timed=True):
        """The step is the first of ranks that start after what is done within."""
        before, said, begin = newest_start(self.run), len(self.said()), time.monotonic()
        yield
        self.wait(lambda: self.stepping().process not in (0, before.process), f"step after {what}")
        seconds = time.monotonic() - begin
        source = source_in(self.said()[said:])
        if is_timed:
            self.times.append((source, seconds))
        say(f"{what}: the next step after {seconds:.2f} s, from {source}, by {newest_start(self.run).ranks} ranks")

    def kill(self, processes, what):
        with self.until_next_step(what):
            end_processes(processes)

    def kill_one(self, rng, ranks, where=""):
        """One of those that `ranks` returns, at a random moment."""
        self.wait_for_checkpoint()
        moment(rng)
        self.kill([rng.choice(ranks())], f"a rank of {newest_start(self.run).ranks}{where} killed")

    def stop(self, processes, launcher):
        """Asks these to save and to end. Returns the launcher's exit code."""
        signal_all(processes, signal.SIGTERM)
        return self.wait_for_end(launcher, "the job after SIGTERM")

    def said(self):
        return self.output.read_text(errors="replace")

    def end(self):
        while left := self.processes():
            end_processes(left)
            time.sleep(0.01)
        for process in self.started:
            process.wait()


def source_in(output):
    """Of a job that was started again: from where it went on."""
    if found := re.findall(r"goes on from (memory|\S*/step-\d)", output):
        return "memory" if found[-1] == "memory" else "a checkpoint"
    return "the beginning"


def moment(rng):
    time.sleep(rng.uniform(0, LONGEST_MOMENT))


def signal_all(processes, number):
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def end_processes(processes):
    signal_all(processes, signal.SIGKILL)
