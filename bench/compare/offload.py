"""A step whose shards, sums of gradients and optimizer state lie in files, with too little memory for these to stay in
the page cache: how far is it from the larger of its computation and its disk's time?

In each round the model in memory takes some steps, then the one in files as many; and then the bytes that a step of the
latter read and wrote are read and written alone.
"""

import dataclasses
import os
import pathlib
import statistics
import tempfile
import time

from compare.contestants import Contestant, Work, from_files, sharded
from compare.control_group import limited_to
from compare.disk import Disk, NoDisk
from compare.job import ContestantFailed
from compare.markdown import table
from compare.memory import above_proportional, measure, mib
from compare.processes import disk_traffic
from compare.recomputation import LONG
from compare.spread import measured, milliseconds, multiple, ratio, with_spread
from compare.steps import TINY
from compare.turns import Turns, job_steps

STEPS, QUICK_STEPS = 3, 2
ROUNDS, QUICK_ROUNDS = 5, 3
STATE = ("parameters", "gradients", "optimizer")  # parts of memory that lie in files
# What there is memory for, beside what a process has without them.
SHARE_IN_MEMORY = 0.25
MARGIN = 64 << 20  # per rank: what is on its way to the disk
IN_MEMORY, FROM_FILES, DISK = "in memory", "from files", "disk"
LARGER = "the larger of computation and disk"


def state_bytes(in_memory, ranks):
    return ranks * sum(in_memory["parts"][part] for part in STATE)


def limit_of(in_memory, ranks):
    """Of all ranks: what they take beside the state, and room for a part of that; or what they take to be built."""
    state = state_bytes(in_memory, ranks)
    beside = ranks * max(in_memory["peak_proportional"]) - state
    return int(max(beside + SHARE_IN_MEMORY * state, sum(in_memory["building"])) + ranks * MARGIN)


def timed(operation):
    begin = time.perf_counter()
    operation()
    return time.perf_counter() - begin


def take_turn(job, steps):
    """The seconds of a step, and the bytes that a step reads and writes, of all ranks."""
    os.sync()  # what others wrote is none of its business
    before = [disk_traffic(process) for process in job.processes()]
    seconds, _, _ = job_steps(job, steps)
    after = [disk_traffic(process) for process in job.processes()]
    read, written = ((sum(now) - sum(then)) / steps for now, then in zip(zip(*after), zip(*before)))
    return statistics.median(seconds), read, written


def take_rounds(setup, contestants, ranks, disk):
    """By round, the seconds of a step in memory, of one from files, and of the disk alone; and a step's bytes."""
    found = {key: [] for key in (IN_MEMORY, FROM_FILES, DISK, "read", "written")}
    steps, rounds = (QUICK_STEPS, QUICK_ROUNDS) if setup.quick else (STEPS, ROUNDS)
    with Turns(setup, contestants, ranks) as turns:
        if len(turns.jobs) < len(contestants):
            raise ContestantFailed("there is no memory for a model in memory beside one from files")
        in_memory, from_files = turns.jobs
        for number in range(1, rounds + 1):
            setup.say(f"    round {number}")
            found[IN_MEMORY].append(take_turn(in_memory, steps)[0])
            seconds, read, written = take_turn(from_files, steps)
            os.sync()
            disk_seconds = timed(lambda: disk.move(read, written))
            for key, value in {FROM_FILES: seconds, DISK: disk_seconds, "read": read, "written": written}.items():
                found[key].append(value)
    return found


def run_work(setup, work, folder):
    setup.say(f"  {work.shape}, {work.dtype}, {work.ranks} ranks")
    backend = setup.backends[0]
    usual, offloaded = sharded(setup, work, backend), from_files(setup, work, backend, folder / "state")
    in_memory = measure(setup, usual, work.ranks)
    limit, state = limit_of(in_memory, work.ranks), state_bytes(in_memory, work.ranks)
    with limited_to(limit) as words, Disk(folder, state) as disk:
        offloaded = Contestant(offloaded.name, (words or []) + offloaded.command)
        return {
            "shape": str(work.shape),
            "parameters": setup.weights_of(work.shape)[1],
            "work": dataclasses.asdict(work),
            "names": [usual.name, offloaded.name],
            "state": state,
            "limit": limit if words else None,
            "memory": {IN_MEMORY: in_memory, FROM_FILES: measure(setup, offloaded, work.ranks)},
            "rounds": take_rounds(setup, [usual, offloaded], work.ranks, disk),
        }


def run(setup):
    """On the disk where the programs lie."""
    with tempfile.TemporaryDirectory(prefix="offload-", dir=setup.programs) as folder:
        try:
            return run_work(setup, Work(TINY if setup.quick else LONG, batch=2), pathlib.Path(folder))
        except NoDisk as problem:
            return {"problem": str(problem)}


def larger(rounds):
    """By round, in seconds."""
    return [max(both) for both in zip(rounds[IN_MEMORY], rounds[DISK])]


def mebibytes(counts):
    found = measured(counts)
    return with_spread(mib(found.median), found)


def setting(result):
    """What was trained, and with how much memory."""
    millions = f"{result['parameters'] / 1e6:.3g} M parameters"
    state = f"{mib(result['state'])} MiB of state"
    ranks = f"{result['work']['ranks']} ranks"
    if result["limit"] is None:
        return f"{millions}, {ranks}, {state}; memory was not limited, as there was no control group:"
    return f"{millions}, {ranks}, {state}; those from files have {mib(result['limit'])} MiB, page cache included:"


def render(result):
    if "problem" in result:
        return [f"Not measured: {result['problem']}."]
    rounds, (usual, offloaded) = result["rounds"], result["names"]
    head = ["", "step, ms", f"of {usual}", f"of {LARGER}", "peak memory, MiB per rank", "read, MiB", "written, MiB"]
    peaks = {where: mebibytes(above_proportional(held)) for where, held in result["memory"].items()}
    rows = [
        [usual, milliseconds(rounds[IN_MEMORY]), "1", "–", peaks[IN_MEMORY], "–", "–"],
        [
            offloaded,
            milliseconds(rounds[FROM_FILES]),
            multiple(rounds[FROM_FILES], rounds[IN_MEMORY]),
            multiple(rounds[FROM_FILES], larger(rounds)),
            peaks[FROM_FILES],
            mebibytes(rounds["read"]),
            mebibytes(rounds["written"]),
        ],
        ["the disk alone, as many bytes", milliseconds(rounds[DISK]), "–", "–", "–", "–", "–"],
    ]
    return [f"{result['shape']}, {setting(result)}", "", *table(head, rows)]


def summary(result):
    if "problem" in result:
        return
    rounds, (usual, offloaded) = result["rounds"], result["names"]
    others = {LARGER: larger(rounds), usual: rounds[IN_MEMORY]}
    multiples = {name: ratio(rounds[FROM_FILES], seconds) for name, seconds in others.items()}
    yield f"A step from files, {result['parameters'] / 1e6:.3g} M parameters", offloaded, multiples
