"""Collectives by size: this library's backends against PyTorch over Gloo and against memcpy.

All do equal work: before a gather each owner writes its shard, as an optimizer does, and where the full unit is read,
that is the same kernel's sum.
"""

import contextlib
import statistics

from compare.contestants import Contestant
from compare.job import ContestantFailed, Job
from compare.markdown import table
from compare.spread import measured, ratio, with_spread

PEER = "PyTorch Gloo"
COPY = "memcpy"
GATHER, READ, REDUCE = "gather", "gather and read", "reduce"
QUESTIONS = {
    GATHER: "Gather of a unit (all_gather_into_tensor): owners write their shards, and every rank has the full unit",
    READ: "The same, and every rank reads the full unit",
    REDUCE: "Reduction of a unit's gradients (reduce_scatter_tensor)",
}
RANKS = (2, 4)
ROUNDS, QUICK_ROUNDS = 9, 3
ELEMENT_BYTES = 4  # fp32
VALUES = 8  # that owners write in turn, as in bench/contestants/collectives.cpp
SUM_TOLERANCE = 1e-5


def sizes(quick):
    return [1 << power for power in range(12, 21 if quick else 27, 4 if quick else 2)]


def repetitions(size):
    """In a turn: many where one is short."""
    return max(4, min(100, (64 << 20) // size))


def contestants(setup):
    def ours(backend):
        return [setup.program("collectives"), "--backend", backend]

    all_of_us = [Contestant(f"fsdp {name}", ours(name)) for name in setup.backends]
    if "shm" in setup.backends:
        all_of_us.append(Contestant("fsdp shm by copies", ["env", "FSDP_SHM_GATHER=copy"] + ours("shm")))
    return all_of_us + [Contestant(PEER, setup.module("peer.collectives"))]


def check_sums(job, answers, size, count):
    """Whoever reads has read what was written last."""
    expected = size // ELEMENT_BYTES * (count % VALUES + 1)
    for rank, answer in enumerate(answers):
        if abs(answer["sum"] - expected) > SUM_TOLERANCE * expected:
            raise ContestantFailed(f"{job.name}: rank {rank} read the sum {answer['sum']}, and {expected} was written")


def turn(job, do, size):
    """The median of the repetitions' seconds, each that of the slowest rank."""
    count = repetitions(size)
    answers = job.ask(do, bytes=size, ranks=len(job.ranks), repetitions=count)
    if do == READ:
        check_sums(job, answers, size, count)
    return statistics.median(max(of_ranks) for of_ranks in zip(*(answer["seconds"] for answer in answers)))


def take_turns(jobs, rows, number):
    """Each job's turn at each size, and one for memcpy."""
    for row in rows:
        do, size, seconds = row["do"], row["bytes"], row["seconds"]
        for job in jobs if number % 2 == 0 else reversed(jobs):
            seconds[job.name].append(turn(job, do, size))
        seconds[COPY].append(turn(jobs[0], f"copy: {do}", size))


def measure_ranks(setup, ranks):
    """All sizes in every round: what disturbs the machine for a moment meets one round of several sizes, and not all
    rounds of one."""
    rows = []
    with contextlib.ExitStack() as stack:
        jobs = [stack.enter_context(Job(c.name, c.command, ranks, setup.scratch)) for c in contestants(setup)]
        for do in QUESTIONS:
            names = [job.name for job in jobs] + [COPY]
            of_do = [
                {"ranks": ranks, "do": do, "bytes": size, "seconds": {name: [] for name in names}}
                for size in sizes(setup.quick)
            ]
            for number in range(QUICK_ROUNDS if setup.quick else ROUNDS):
                setup.say(f"  {ranks} ranks: {do}, round {number + 1}")
                take_turns(jobs, of_do, number)
            rows += of_do
    return rows


def run(setup):
    return {"rows": [row for ranks in RANKS for row in measure_ranks(setup, ranks)]}


def readable(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def short(number):
    """In three digits, or all before the point."""
    return f"{number:.3g}" if number < 1000 else f"{number:.0f}"


def cell(row, name):
    seconds = measured(row["seconds"][name])
    text = with_spread(short(1e3 * seconds.median), seconds)
    if name == PEER:
        return text
    of_peer = ratio(row["seconds"][name], row["seconds"][PEER])
    return f"{text} ({with_spread(f'{of_peer.median:.2g}', of_peer)})"


def rows_of(result, do, ranks):
    return [row for row in result["rows"] if (row["do"], row["ranks"]) == (do, ranks)]


def render(result):
    lines = ["Milliseconds; in brackets as a multiple of PyTorch's."]
    for do, question in QUESTIONS.items():
        for ranks in sorted({row["ranks"] for row in result["rows"]}):
            rows = rows_of(result, do, ranks)
            names = list(rows[0]["seconds"])
            cells = [[readable(row["bytes"])] + [cell(row, name) for name in names] for row in rows]
            lines += ["", f"{question}; {ranks} ranks:", "", *table(["full unit"] + names, cells)]
    return lines


SUMMARY_BYTES = 16 << 20


def summary(result):
    """Of 2 ranks, the largest unit that is no larger than 16 MiB."""
    for do, title in ((READ, "Gather, written and read"), (REDUCE, "Reduction")):
        rows = [row for row in rows_of(result, do, 2) if row["bytes"] <= SUMMARY_BYTES]
        if not rows:
            continue
        row = rows[-1]
        name = next(iter(row["seconds"]))
        multiples = {other: ratio(row["seconds"][name], row["seconds"][other]) for other in (PEER, COPY)}
        yield f"{title}, a unit of {readable(row['bytes'])}, 2 ranks", name, multiples
