"""Outputs that take nothing: a full disk under standard output, or under the files of a run.

Standard output is /dev/full, which takes no byte: a command whose result is lost fails and says so, and a training goes
on. For a disk that becomes full under files stands a limit on their size, drawn at random from 1 KiB, the least that
`ulimit -f` sets: a write beyond it fails as on a full disk. Then the program ends by itself, with no signal, and the
checkpoint that it reads is as it was.
"""

import os
import pathlib
import random
import resource
import shlex
import shutil
import subprocess
import tempfile

from hostile.targets import MODEL, train
from hostile.verdict import MOST_SECONDS, Case, fingerprint, shown_by_control, words_of_a_crash

EVALUATION = ("train", "--eval-only", "--threads", "1", "--run", "{}/run")
SAMPLE = ("sample", *MODEL, "--threads", "1", "--sample-length", "2", "--checkpoint", "{}/run/step-2")
TRAINING = train("--text", "{}/text.txt", "--run", "{}/other", "--steps", "3")

# Programs and their arguments, with {} for the folder of whole files.
RESULTS = {
    "help": ("fsdp-train", "--help"), "version": ("fsdp-train", "--version"), "man": ("fsdp-train", "man"),
    "completion": ("fsdp-train", "completion", "bash"), "models": ("fsdp-train", "models"),
    "doctor": ("fsdp-train", "doctor"),
    "dry-run": ("fsdp-train", "train", "--dry-run", "--peak-flops", "1T"),
    "evaluation": ("fsdp-train", *EVALUATION), "evaluation-json": ("fsdp-train", *EVALUATION, "--json"),
    "evaluation-of-two": ("fsdp-train", *EVALUATION, "--json", "--ranks", "2"),
    "sample": ("fsdp-train", *SAMPLE), "report": ("fsdp-train", "report", "{}/run", "--output", "{}/page.html"),
    "prepare": ("fsdp-train", "prepare", "--text", "{}/text.txt", "--output", "{}/more-tokens"),
    "convert-help": ("fsdp-convert", "--help"), "convert-list": ("fsdp-convert", "--list", "{}/run/step-2"),
    "convert": ("fsdp-convert", "{}/run/step-2", "{}/target", "--to", "hf"),
    "plan-help": ("fsdp-plan", "--help"), "plan-textbook": ("fsdp-plan", "textbook"),
    "plan-page": ("fsdp-plan", "gpt2", "--html", "{}/plan.html"),
}
TRAININGS = {"training": ("fsdp-train", *TRAINING), "training-of-two": ("fsdp-train", *TRAINING, "--ranks", "2")}
WRITERS = {**TRAININGS, "training-on": ("fsdp-train", *train("--text", "{}/text.txt", "--run", "{}/run", "--steps", "3")),
           **{name: RESULTS[name] for name in ("report", "prepare", "convert", "plan-page")}}

KINDS = {"full-stdout": {**RESULTS, **TRAININGS}, "full-disk": WRITERS}
LOST = "cannot write to standard output: No space left on device"


def names(round_number):
    return [f"{kind}/{command}/{round_number}" for kind, commands in KINDS.items() for command in commands]


def answer(command, place, full_stdout, most_bytes):
    """The exit code, None for a program that does not end, and what it printed where that can be read."""
    environment = {**os.environ, "FSDP_CACHE": str(place / "cache"), "CUDA_VISIBLE_DEVICES": "", "LC_ALL": "C.UTF-8"}

    def limit():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    with open("/dev/full", "wb") as full:  # and no limit is on a pipe
        streams = {"stdout": full, "stderr": subprocess.PIPE} if full_stdout else \
            {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(command, **streams, stdin=subprocess.DEVNULL, env=environment, preexec_fn=limit)
    try:
        printed = process.communicate(timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None, ""
    return process.returncode, b"".join(filter(None, printed)).decode(errors="surrogateescape")


def problems_of(kind, command, code, output, changed):
    if code is None:
        return [f"it ran for more than {MOST_SECONDS} s"]
    problems = [f"it says '{word}'" for word in words_of_a_crash(output)]
    if controls := shown_by_control(output):
        problems.append(f"control characters: {controls}")
    if kind == "full-stdout":
        expected = 0 if command in TRAININGS else 1
        if code != expected:
            problems.append(f"exit code {code}, expected {expected}")
        if output.count(LOST) != 1:
            problems.append("it does not say once that output was lost")
    elif code not in (0, 1, 2):
        problems.append(f"exit code {code}")
    if changed:
        problems.append(f"it changed what it reads: {changed}")
    return problems


def run_case(program, whole, name):
    kind, command_name, number = name.split("/")
    rng = random.Random(name)
    most_bytes = int(1024 * 10 ** rng.uniform(0, 3)) if kind == "full-disk" else None
    with tempfile.TemporaryDirectory(prefix="fsdp-hostile-case-") as folder:
        place = pathlib.Path(folder) / "files"
        shutil.copytree(whole, place)
        source = place / "run" / "step-2"
        before = fingerprint(source)
        first, *rest = KINDS[kind][command_name]
        command = [str(program.with_name(first)), *(part.format(place) for part in rest)]
        code, output = answer(command, place, kind == "full-stdout", most_bytes)
        changed = [str(path) for path, bytes_ in before.items() if fingerprint(source).get(path) != bytes_]
        shown = shlex.join([first, *command[1:]]) + (" >/dev/full" if most_bytes is None else f"  # files of {most_bytes} bytes at most")
        return Case(name, shown, output, problems_of(kind, command_name, code, output, changed))
