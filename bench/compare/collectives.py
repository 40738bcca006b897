"""Collectives by size: this library's backends against PyTorch over Gloo and against memcpy."""

import contextlib
import statistics

from compare.contestants import Contestant
from compare.job import Job
from compare.markdown import table

PEER = "PyTorch Gloo"
COPY = "memcpy"
QUESTIONS = {
    "gather": "Gather of a unit (all_gather_into_tensor), from the owners' writes to the last read",
    "reduce": "Reduction of a unit's gradients (reduce_scatter_tensor)",
}


def sizes(quick):
    return [1 << power for power in range(10, 21 if quick else 29, 2 if not quick else 5)]


def repetitions(size):
    """In a turn: many where one is short."""
    return max(2, min(50, (64 << 20) // size))


def contestants(setup):
    def ours(backend):
        return [setup.program("collectives"), "--backend", backend]

    all_of_us = [Contestant(f"fsdp {name}", ours(name)) for name in setup.backends]
    if "shm" in setup.backends:
        all_of_us.append(Contestant("fsdp shm by copies", ["env", "FSDP_SHM_GATHER=copy"] + ours("shm")))
    return all_of_us + [Contestant(PEER, setup.module("peer.collectives"))]


def seconds_of(job, do, size):
    """Of each repetition, the seconds of the slowest rank."""
    answers = job.ask(do, bytes=size, repetitions=repetitions(size))
    return [max(of_ranks) for of_ranks in zip(*(answer["seconds"] for answer in answers))]


def measure_size(jobs, do, size, rounds):
    """The median seconds, by contestant."""
    seconds = {job.name: [] for job in jobs} | {COPY: []}
    for _ in range(rounds):
        for job in jobs:
            seconds[job.name] += seconds_of(job, do, size)
        seconds[COPY] += seconds_of(jobs[0], "copy", size)
    return {name: statistics.median(values) for name, values in seconds.items()}


def measure_ranks(setup, ranks):
    rows = []
    with contextlib.ExitStack() as stack:
        jobs = [stack.enter_context(Job(c.name, c.command, ranks, setup.scratch)) for c in contestants(setup)]
        for do in QUESTIONS:
            for size in sizes(setup.quick):
                setup.say(f"  {ranks} ranks: {do} of {size >> 10} KiB")
                row = {"ranks": ranks, "do": do, "bytes": size}
                rows.append(row | {"seconds": measure_size(jobs, do, size, rounds=2 if setup.quick else 5)})
    return rows


def run(setup):
    return {"rows": [row for ranks in (2, 4) for row in measure_ranks(setup, ranks)]}


def readable(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def cell(row, name):
    seconds = row["seconds"][name]
    return f"{1e3 * seconds:.3g} ({seconds / row['seconds'][PEER]:.2f})"


def render(result):
    lines = ["Milliseconds, medians; in brackets as a multiple of PyTorch's."]
    for do, question in QUESTIONS.items():
        for ranks in sorted({row["ranks"] for row in result["rows"]}):
            rows = [row for row in result["rows"] if (row["do"], row["ranks"]) == (do, ranks)]
            names = list(rows[0]["seconds"])
            cells = [[readable(row["bytes"])] + [cell(row, name) for name in names] for row in rows]
            lines += ["", f"{question}; {ranks} ranks:", "", *table(["full unit"] + names, cells)]
    return lines
