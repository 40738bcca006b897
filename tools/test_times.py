#!/usr/bin/env python3
"""Where the time of the tests goes: wall and CPU seconds of each part and each test, and the processes that it starts.

  tools/test_times.py part NAME COMMAND...   runs a part of the verdict, such as a build
  tools/test_times.py test COUNTER NAME COMMAND...
                                             runs a test; ctest does so (cmake/AddTests.cmake). COUNTER is a library that
                                             counts processes (tests/support/count_processes.cpp), or empty
  tools/test_times.py table                  prints the table

The times are lines of the file that FSDP_TEST_TIMES names: kind, name, wall seconds, CPU seconds, processes. Without it,
`part` and `test` only run the command.
"""

import collections
import ctypes
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

SLOWEST = 20


# The processes that a child's own children leave behind count, too.
def adopt_orphans():
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def wait_for_orphans():
    for _ in range(100):
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.01)
        except ChildProcessError:
            return


def run(kind, name, command, counter=""):
    file = os.environ.get("FSDP_TEST_TIMES")
    if not file:
        os.execvp(command[0], command)
    with tempfile.NamedTemporaryFile() as started:
        environment = dict(os.environ)
        if counter:
            environment["FSDP_STARTED_PROCESSES"] = started.name
            environment["LD_PRELOAD"] = " ".join(filter(None, [counter, environment.get("LD_PRELOAD")]))
        adopt_orphans()
        begin = time.monotonic()
        process = subprocess.Popen(command, env=environment)
        signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
        code = process.wait()
        wall = time.monotonic() - begin
        wait_for_orphans()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        count = os.path.getsize(started.name)
    with open(file, "a", encoding="utf-8") as lines:
        lines.write(f"{kind}\t{name}\t{wall:.2f}\t{used.ru_utime + used.ru_stime:.2f}\t{count}\n")
    return code if code >= 0 else 128 - code


def rows_of(file):
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            kind, name, wall, cpu, processes = line.rstrip("\n").split("\t")
            yield kind, name, float(wall), float(cpu), int(processes)


def print_rows(title, rows):
    print(f"\n{title:<52}{'wall s':>9}{'CPU s':>9}{'processes':>11}")
    for name, wall, cpu, processes in rows:
        print(f"{name:<52}{wall:>9.1f}{cpu:>9.1f}{processes or '':>11}")


def print_table(file):
    rows = list(rows_of(file))
    tests = [row[1:] for row in rows if row[0] == "test"]
    rooms = collections.defaultdict(lambda: [0, 0, 0])
    for name, *figures in tests:
        room = rooms[name.split(".")[0]]
        for i, figure in enumerate(figures):
            room[i] += figure
    by_room = sorted(((name, *sums) for name, sums in rooms.items()), key=lambda row: -row[2])
    total = [("all tests, one after the other", *(sum(row[i] for row in tests) for i in (1, 2, 3)))]
    print_rows("part", [row[1:] for row in rows if row[0] == "part"])
    print_rows("room", by_room + total)
    print_rows(f"the {SLOWEST} slowest of {len(tests)} tests", sorted(tests, key=lambda row: -row[1])[:SLOWEST])
    print(f"\nEvery test: {file}")


def main():
    kind, *rest = sys.argv[1:] or [""]
    if kind == "table" and "FSDP_TEST_TIMES" in os.environ:
        print_table(os.environ["FSDP_TEST_TIMES"])
    elif kind == "part" and len(rest) > 1:
        sys.exit(run(kind, rest[0], rest[1:]))
    elif kind == "test" and len(rest) > 2:
        sys.exit(run(kind, rest[1], rest[2:], counter=rest[0]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
