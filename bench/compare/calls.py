"""Calls of a World on whole tensors, and the same calls of torch.distributed over Gloo.

A call takes from when the last rank begins it to when the last rank ends it: all ranks run on one machine, with one
clock. In front of each call all ranks meet.
"""

import contextlib
import statistics

from compare.collectives import ELEMENT_BYTES, PEER, SUM_TOLERANCE, cell, readable
from compare.contestants import Contestant
from compare.job import ContestantFailed, Job
from compare.markdown import table
from compare.spread import ratio

TREE, ONE_BY_ONE = "broadcast", "broadcast, one by one"
REDUCE_AND_BROADCAST = "reduce, broadcast"
RANKS = (2, 4)
ROUNDS, QUICK_ROUNDS = 5, 2
MOST_REPETITIONS = 40


def numbers(ranks):
    """The sum of what ranks hold at first: rank r has r + 1 in each element."""
    return ranks * (ranks + 1) / 2


# Of each call: what it is, and the mean of the root's or first rank's result, in elements of the whole tensor.
CALLS = {
    TREE: ("`broadcast_`", lambda ranks: 1),
    "scatter": ("`scatter`", lambda ranks: 1 / ranks),
    "gather": ("`gather`", lambda ranks: numbers(ranks) / ranks),
    "all_gather": ("`all_gather`", lambda ranks: numbers(ranks) / ranks),
    "reduce": ("`reduce_`", numbers),
    "all_reduce": ("`all_reduce_`", numbers),
    REDUCE_AND_BROADCAST: ("`reduce_`, then `broadcast_`", numbers),
    "reduce_scatter": ("`reduce_scatter`", lambda ranks: numbers(ranks) / ranks),
    "all_to_all": ("`all_to_all`", lambda ranks: numbers(ranks) / ranks),
    "ping-pong": ("`send`, `receive_`, there and back", lambda ranks: 1),
}
EXPECTED = {name: of_rank_0 for name, (_, of_rank_0) in CALLS.items()} | {ONE_BY_ONE: lambda ranks: 1}


def sizes(quick):
    return [1 << power for power in range(10, 21 if quick else 27, 4)]


def repetitions(size):
    return max(4, min(MOST_REPETITIONS, (64 << 20) // size))


def contestants(setup, backends):
    ours = [Contestant(f"fsdp {name}", [setup.program("collectives"), "--backend", name]) for name in backends]
    return ours + [Contestant(PEER, setup.module("peer.collectives"))]


def check_result(job, call, size, answer):
    """Of rank 0, which has a result of each call."""
    expected = EXPECTED[call](len(job.ranks)) * (size // ELEMENT_BYTES)
    if abs(answer["sum"] - expected) > SUM_TOLERANCE * expected:
        raise ContestantFailed(f"{job.name}: rank 0 has the sum {answer['sum']} after {call}, expected {expected}")


def durations(answers):
    """Of each repetition, from the last rank's begin to the last rank's end."""
    begins = zip(*(answer["begins"] for answer in answers))
    ends = zip(*(answer["ends"] for answer in answers))
    return [max(end) - max(begin) for begin, end in zip(begins, ends)]


def turn(job, call, size, count):
    answers = job.ask(f"call: {call}", bytes=size, repetitions=count)
    check_result(job, call, size, answers[0])
    return statistics.median(durations(answers))


def measure_ranks(setup, ranks):
    """All sizes of a call in every round, as in compare.collectives."""
    rows = []
    with contextlib.ExitStack() as stack:
        invited = contestants(setup, setup.backends)
        jobs = [stack.enter_context(Job(c.name, c.command, ranks, setup.scratch)) for c in invited]
        for call in CALLS:
            setup.say(f"  {ranks} ranks: {call}")
            of_call = [
                {"ranks": ranks, "call": call, "bytes": size, "seconds": {job.name: [] for job in jobs}}
                for size in sizes(setup.quick)
            ]
            for number in range(QUICK_ROUNDS if setup.quick else ROUNDS):
                for row in of_call:
                    for job in jobs if number % 2 == 0 else reversed(jobs):
                        row["seconds"][job.name].append(turn(job, call, row["bytes"], repetitions(row["bytes"])))
            rows += of_call
    return rows


def run(setup):
    return {"rows": [row for ranks in RANKS for row in measure_ranks(setup, ranks)]}


def render_rows(rows):
    """Of as many ranks."""
    names = list(rows[0]["seconds"])
    cells = [[CALLS[row["call"]][0], readable(row["bytes"]), *(cell(row, name) for name in names)] for row in rows]
    return table(["call", "bytes"] + names, cells)


def render(result):
    lines = [
        "Milliseconds of a call; in brackets as a multiple of PyTorch's. `bytes` are those of one tensor of `broadcast_`, "
        "`reduce_`, `all_reduce_`, `reduce_scatter` and `send`, and of all ranks' tensors together in the others."
    ]
    for ranks in sorted({row["ranks"] for row in result["rows"]}):
        lines += ["", f"{ranks} ranks:", "", *render_rows([row for row in result["rows"] if row["ranks"] == ranks])]
    return lines


SUMMARY_BYTES = 4 << 20


def summary(result):
    """Of 2 ranks and 4 MiB."""
    for call in ("all_reduce", TREE):
        for row in result["rows"]:
            if (row["call"], row["ranks"], row["bytes"]) == (call, 2, SUMMARY_BYTES):
                name = next(iter(row["seconds"]))
                of_peer = ratio(row["seconds"][name], row["seconds"][PEER])
                yield f"{CALLS[call][0]}, {readable(row['bytes'])}, 2 ranks", name, {PEER: of_peer}
