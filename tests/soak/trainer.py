"""fsdp-train on a small model: a run that is disturbed, beside one that is not."""

import copy
import dataclasses
import errno
import json
import os
import re
import resource
import signal
import struct
import subprocess
import tempfile
import time

STEPS, INTERVAL, KEEP = 12, 3, 2
ARGUMENTS = ("--context 8 --width 16 --layers 1 --heads 2 --batch 1 --threads 1 --timeout 60 --sample-length 2 "
             f"--validation-windows 1 --validate-every 5 --ranks 2 --steps {STEPS} --save-every {INTERVAL} "
             f"--keep {KEEP}").split()
MOST_SECONDS = 120  # of a run that takes two: more is a hang
NEVER_SAID = ("internal error", "terminate called", "std::", "Sanitizer")

# As tests/support/file_faults.h has them.
ACTIONS = {"none": 0, "kill-process": 1, "kill-group": 2, "fail": 3, "fail-from-here": 4, "fill-from-here": 5,
           "write-half": 6, "remove-folder": 7, "forbid-folder": 8}


@dataclasses.dataclass(frozen=True)
class Fault:
    """What the layer does at one of the run's calls to the kernel."""

    action: str
    at: int
    error: int = 0
    part: str = ""  # which of the run's files count, those whose paths contain this

    def __str__(self):
        error = f" with {errno.errorcode[self.error]}" if self.error else ""
        return f"{self.action}{error} at call {self.at}{' of ' + self.part if self.part else ''}"


@dataclasses.dataclass
class Ending:
    code: int  # of the launcher; minus the signal that ended it
    output: str


class Trainer:
    """Runs in folders of their own, with the same text."""

    def __init__(self, build, folder):
        self.program = build / "apps" / "fsdp-train"
        self.layer = build / "tests" / "crash" / "libfile_faults.so"
        self.folder = folder
        self.prefix = self.more = ()  # before the command, and behind its other arguments
        self.text = folder / "text.txt"
        self.text.write_text("".join(f"In the beginning was the word {i}.\n" for i in range(200)))

    def like(self, prefix, more):
        other = copy.copy(self)
        other.prefix, other.more = prefix, more
        return other

    def command(self, run):
        return [*self.prefix, str(self.program), *ARGUMENTS, "--text", str(self.text), "--run", str(run), *self.more]

    def environment(self, run, fault=None, log=None):
        variables = {**os.environ, "FSDP_CACHE": str(self.folder / "cache"), "CUDA_VISIBLE_DEVICES": "",
                     "LC_ALL": "C.UTF-8"}
        if fault or log:
            fault = fault or Fault("none", 0)
            variables["LD_PRELOAD"] = str(self.layer)
            variables["FSDP_FILE_FAULTS"] = (f"folder={run}\nlog={log or ''}\naction={ACTIONS[fault.action]}\n"
                                             f"at={fault.at}\nerror={fault.error}\npart={fault.part}\n")
        return variables

    def start(self, run, output, fault=None, log=None):
        """The leader of a process group, as a shell starts it."""
        return subprocess.Popen(self.command(run), stdout=output, stderr=output, stdin=subprocess.DEVNULL,
                                env=self.environment(run, fault, log), start_new_session=True,
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))

    def run(self, run, fault=None, log=None, while_running=lambda process: None):
        with tempfile.TemporaryFile() as output:
            process = self.start(run, output, fault, log)
            try:
                while_running(process)
                code = process.wait(MOST_SECONDS)
            finally:
                end_group(process)
            output.seek(0)
            return Ending(code, output.read().decode(errors="replace"))


def end_group(process):
    """None of the job's processes is alive afterwards."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def records(run):
    """Of the lines that are whole."""
    file = run / "metrics.jsonl"
    lines = file.read_text(errors="replace").split("\n")[:-1] if file.exists() else []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            pass
    return found


def steps(run):
    return [record["step"] for record in records(run) if "event" not in record]


def checkpoints(run):
    """The newest first."""
    found = [path for path in run.glob("step-*") if path.name[5:].isdigit() and (path / "manifest.json").exists()]
    return sorted(found, key=lambda path: int(path.name[5:]), reverse=True)


def weights(run):
    """All bytes of the last checkpoint's shards: parameters and optimizer state."""
    folder = run / f"step-{STEPS}"
    return {path.name: path.read_bytes() for path in sorted(folder.glob("shard-*"))}


def problems_of_end(run, ending, expected, keeps=True):
    """Of a run that was let to its end; `keeps`: no more checkpoints than --keep says."""
    problems = problems_of_text(ending)
    if ending.code != 0:
        return [*problems, f"exit code {ending.code} of the last process:\n{ending.output}"]
    if weights(run) != expected:
        problems.append("the final weights are not those of the run that was not disturbed")
    if steps(run) != list(range(1, STEPS + 1)):
        problems.append(f"the record has the steps {steps(run)}")
    if leftovers := sorted(path.name for path in run.iterdir() if ".partial" in path.name or path.name == "lock"):
        problems.append(f"left behind: {leftovers}")
    if keeps and len(checkpoints(run)) > KEEP:
        problems.append(f"{len(checkpoints(run))} checkpoints, with --keep {KEEP}")
    return problems


def problems_of_text(ending):
    return [f"it says '{text}':\n{ending.output}" for text in NEVER_SAID if text in ending.output]


HEAD = struct.Struct("<5i4xqq")  # of a call in a log, as tests/support/file_faults.cpp writes it


def calls_in(log):
    """The kinds of the calls that a log has, by number, their files and paths. Calls on open files have no path."""
    data, at, found = log.read_bytes(), 0, []
    while at < len(data):
        kind, file, _, path_size, other_size, _, size = HEAD.unpack_from(data, at)
        at += HEAD.size
        found.append((kind, file, data[at: at + path_size].decode()))
        at += path_size + other_size + size
    return found


@dataclasses.dataclass(frozen=True)
class Reference:
    """A run that nobody disturbs."""

    weights: dict
    calls: list
    seconds: float


def undisturbed(trainer):
    run, log = trainer.folder / "undisturbed", trainer.folder / "log"
    begin = time.monotonic()
    ending = trainer.run(run, log=log)
    reference = Reference(weights(run), calls_in(log), time.monotonic() - begin)
    problems = problems_of_end(run, ending, reference.weights)
    if problems or len(reference.weights) != 2 or len(reference.calls) < 100:
        raise SystemExit(f"the run that nobody disturbs failed: {problems}\n{ending.output}")
    return reference


def resumed_step(output):
    """The step that a process went on from, 0 for the beginning, None where it did not get so far."""
    if found := re.search(r"goes on from \S*/step-(\d+)", output):
        return int(found.group(1))
    return 0 if re.search(rf"^step +\d+/{STEPS} ", output, re.MULTILINE) else None
