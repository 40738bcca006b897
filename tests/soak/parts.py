"""What can be tried for long: each part is a function of the options and of the seconds that it may take, which returns
how many cases it tried, and how many of them went wrong. It prints these."""

import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from soak.cases import in_parallel, numbers_of, say
from soak.failed_saves import stopped_run
from soak.faults import failing_run, full_disk
from soak.kills import killed_run
from soak.ranks_killed import ranks_killed
from soak.trainer import Trainer, undisturbed


def run_quietly(command, **variables):
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", **variables}
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace")


def test_names(executable, names):
    listed = run_quietly([executable, "--gtest_list_tests", f"--gtest_filter={names}"]).stdout
    suite, tests = "", []
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()
        if name.startswith("  "):
            tests.append(suite + name.strip())
        else:
            suite = name
    return tests


def tests(program, names):
    """Tests of a GoogleTest executable, each for its share of the time (tests/crash/scenes.h)."""
    def part(given, seconds):
        executable = given.build / "tests" / program
        executable = executable if executable.exists() else given.build / "tests" / "crash" / program
        all_tests = test_names(executable, names)
        tried = failed = 0
        for test in all_tests:
            done = run_quietly([executable, f"--gtest_filter={test}", "--gtest_brief=1"],
                               FSDP_SOAK_SECONDS=str(int(seconds / len(all_tests))))
            cases = re.findall(r"^soak: (\d+) cases", done.stdout, re.MULTILINE)
            tried += int(cases[-1]) if cases else 1
            failed += done.returncode != 0
            say(f"{test}: {cases[-1] + ' cases' if cases else 'once'}{', failed' if done.returncode else ''}")
            if done.returncode:
                say(done.stdout)
        return tried, failed
    return part


def reshard(given, seconds):
    """Saves of N ranks loaded by M, with every pair of strategies; then random models until the time is over."""
    tried, failed = tests("test_library", "Reshard.*")(given, 0)
    end = time.monotonic() + seconds
    for seed in itertools.count(given.seed):
        if time.monotonic() > end:
            return tried, failed
        done = run_quietly([given.build / "tests" / "test_library", "--gtest_brief=1", "--gtest_filter=*Property*"],
                           FSDP_PROPERTY_SEED=str(seed))
        tried, failed = tried + 1, failed + (done.returncode != 0)
        if done.returncode:
            say(f"FSDP_PROPERTY_SEED={seed}:\n{done.stdout}")


def runs(try_one, first=None):
    """Runs of fsdp-train, each with a number of its own, beside one that nobody disturbs."""
    def part(given, seconds):
        with tempfile.TemporaryDirectory(prefix="fsdp-soak-") as folder:
            trainer = Trainer(given.build, pathlib.Path(folder))
            reference = undisturbed(trainer)
            tried, failed = first(trainer, reference) if first and given.only is None else (0, 0)
            told = time.monotonic()
            numbers, goes_on = numbers_of(given, seconds)
            results = in_parallel(lambda number: try_one(trainer, reference, number), numbers, given.jobs, goes_on)
            for count, problems in results:
                tried, failed = tried + count, failed + bool(problems)
                for problem in problems:
                    say(problem)
                if time.monotonic() - told > 60:
                    told = time.monotonic()
                    say(f"{tried} so far, {failed} failed")
            return tried, failed
    return part


def try_full_disk(trainer, reference):
    problems = full_disk(trainer, reference)
    if problems is None:
        say("a disk that is full: not tried, nobody may mount one here")
        return 0, 0
    for problem in problems:
        say(f"a disk that is full: {problem}")
    return 1, bool(problems)


def fuzz(given, seconds):
    done = run_quietly([sys.executable, "-m", "hostile", "--program", given.build / "apps" / "fsdp-train", "--seed",
                        str(given.seed), "--seconds", str(int(seconds)), "--jobs", str(given.jobs)])
    result = re.search(r"^(\d+) hostile inputs, (\d+) not", done.stdout, re.MULTILINE)
    if done.returncode:
        say(done.stdout)
    return (int(result.group(1)), int(result.group(2))) if result else (0, 1)


# What each counts, and how.
PARTS = {
    "crash-points": ("saves that were killed after one of their calls", tests("test_crash", "*CrashPoints.*")),
    "power-loss": ("states of the disk after a loss of power", tests("test_crash", "*PowerLoss.*")),
    "faults": ("saves with a call that fails", tests("test_crash", "*FailingCalls.*:RemovedFolder.*")),
    "kills": ("kills of fsdp-train", runs(killed_run)),
    "ranks-killed": ("kills of ranks and hosts of a run that goes on", ranks_killed),
    "train-faults": ("runs of fsdp-train with a call that fails", runs(failing_run, first=try_full_disk)),
    "failed-saves": ("runs of fsdp-train that a failed save stops", runs(stopped_run)),
    "reshard": ("tests of saves that other ranks load, and random models", reshard),
    "fuzz": ("hostile files", fuzz),
}
