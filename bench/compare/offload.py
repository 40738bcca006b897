"""A step whose shards, sums of gradients and optimizer state lie in files, with too little memory for these to stay in
the page cache: how far is it from the larger of its computation and its disk's time?

In each round the model in memory takes some steps, then one from files as many, and one from files that steps in its
backward; and after each of these the bytes that a step of it read and wrote are read and written alone.
"""

import contextlib
import dataclasses
import os
import pathlib
import statistics
import tempfile
import time

from compare.contestants import Contestant, Work, from_files, in_backward, sharded
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

STEPS = 2
ROUNDS, QUICK_ROUNDS = 5, 3
STATE = ("parameters", "gradients", "optimizer")  # parts of memory that lie in files
# What there is memory for, beside what a process has without them.
SHARE_IN_MEMORY = 0.25
MARGIN = 64 << 20  # per rank: what is on its way to the disk
IN_MEMORY, FROM_FILES, IN_BACKWARD = "in memory", "from files", "from files, step in backward"
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
    seconds = job_steps(job, steps).seconds
    after = [disk_traffic(process) for process in job.processes()]
    read, written = ((sum(now) - sum(then)) / steps for now, then in zip(zip(*after), zip(*before)))
    return statistics.median(seconds), read, written


def take_rounds(setup, contestants, ranks, disk):
    """By contestant and round: the seconds of a step; and from files the bytes that it reads and writes, and the
    seconds of the disk alone for them."""
    found = {IN_MEMORY: {"seconds": []}}
    found |= {kind: {key: [] for key in ("seconds", "read", "written", "disk")} for kind in contestants if kind not in found}
    rounds = QUICK_ROUNDS if setup.quick else ROUNDS
    with Turns(setup, list(contestants.values()), ranks) as turns:
        if len(turns.jobs) < len(contestants):
            raise ContestantFailed("there is no memory for a model in memory beside those from files")
        for number in range(1, rounds + 1):
            setup.say(f"    round {number}")
            for kind, job in zip(contestants, turns.jobs):
                seconds, read, written = take_turn(job, STEPS)
                found[kind]["seconds"].append(seconds)
                if kind == IN_MEMORY:
                    continue
                os.sync()
                found[kind]["disk"].append(timed(lambda: disk.move(read, written)))
                found[kind]["read"].append(read)
                found[kind]["written"].append(written)
    return found


def run_work(setup, work, folder):
    setup.say(f"  {work.shape}, {work.dtype}, {work.ranks} ranks")
    backend = setup.backends[0]
    usual = sharded(setup, work, backend)
    in_memory = measure(setup, usual, work.ranks)
    limit, state = limit_of(in_memory, work.ranks), state_bytes(in_memory, work.ranks)
    offloaded = {
        FROM_FILES: from_files(setup, work, backend, folder / "state"),
        IN_BACKWARD: in_backward(from_files(setup, work, backend, folder / "state-in-backward")),
    }
    with contextlib.ExitStack() as scope:
        disk = scope.enter_context(Disk(folder, state))
        for kind, contestant in offloaded.items():
            words = scope.enter_context(limited_to(limit))
            offloaded[kind] = Contestant(contestant.name, (words or []) + contestant.command)
        contestants = {IN_MEMORY: usual} | offloaded
        return {
            "shape": str(work.shape),
            "parameters": setup.weights_of(work.shape)[1],
            "work": dataclasses.asdict(work),
            "names": [contestant.name for contestant in contestants.values()],
            "state": state,
            "limit": limit if words else None,
            "memory": {IN_MEMORY: in_memory}
            | {kind: measure(setup, contestant, work.ranks) for kind, contestant in offloaded.items()},
            "rounds": take_rounds(setup, contestants, work.ranks, disk),
        }


def run(setup):
    """On the disk where the programs lie."""
    with tempfile.TemporaryDirectory(prefix="offload-", dir=setup.programs) as folder:
        try:
            return run_work(setup, Work(TINY if setup.quick else LONG, batch=4), pathlib.Path(folder))
        except NoDisk as problem:
            return {"problem": str(problem)}


def larger(rounds, kind):
    """By round, in seconds."""
    return [max(both) for both in zip(rounds[IN_MEMORY]["seconds"], rounds[kind]["disk"])]


def mebibytes(counts):
    found = measured(counts)
    if found.median < 1 << 20:
        return "less than 1"  # a percentage of so little says nothing
    return with_spread(mib(found.median), found)


def setting(result):
    """What was trained, and with how much memory."""
    millions = f"{result['parameters'] / 1e6:.3g} M parameters"
    state = f"{mib(result['state'])} MiB of state"
    ranks = f"{result['work']['ranks']} ranks with {result['work']['batch']} sequences each"
    if result["limit"] is None:
        return f"{millions}, {ranks}, {state}; memory was not limited, as there was no control group:"
    return f"{millions}, {ranks}, {state}; those from files have {mib(result['limit'])} MiB each, page cache included:"


def render(result):
    if "problem" in result:
        return [f"Not measured: {result['problem']}."]
    rounds, (usual, *_) = result["rounds"], result["names"]
    of_files = ["read, MiB", "written, MiB", "the disk alone for them, ms"]
    head = ["", "step, ms", f"of {usual}", f"of {LARGER}", "peak memory, MiB per rank", *of_files]
    rows = []
    for name, (kind, found) in zip(result["names"], rounds.items()):
        peak = mebibytes(above_proportional(result["memory"][kind]))
        row = [name, milliseconds(found["seconds"])]
        if kind == IN_MEMORY:
            rows.append(row + ["1", "–", peak, "–", "–", "–"])
            continue
        row += [multiple(found["seconds"], others) for others in (rounds[IN_MEMORY]["seconds"], larger(rounds, kind))]
        row += [peak, mebibytes(found["read"]), mebibytes(found["written"]), milliseconds(found["disk"])]
        rows.append(row)
    return [f"{result['shape']}, {setting(result)}", "", *table(head, rows)]


def summary(result):
    if "problem" in result:
        return
    rounds, (usual, *_) = result["rounds"], result["names"]
    for name, (kind, found) in zip(result["names"], rounds.items()):
        if kind == IN_MEMORY:
            continue
        others = {LARGER: larger(rounds, kind), usual: rounds[IN_MEMORY]["seconds"]}
        multiples = {other: ratio(found["seconds"], seconds) for other, seconds in others.items()}
        yield f"A step from files, {result['parameters'] / 1e6:.3g} M parameters", name, multiples
