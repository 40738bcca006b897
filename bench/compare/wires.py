"""Slow wires: two hosts and a cable between them. How much of the communication is hidden behind the computation?

What a rank receives in a step, by the rate of the cable, is the time that communication alone takes. What a step takes
longer than without communication is the part of it that is seen: waits, which this library measures itself, and the
network's own work on processors that compute at the same time. How much the latter takes is shown by steps that
communicate nothing while something else fills the cable.
"""

import statistics

from compare.contestants import (
    LIMIT,
    Work,
    alone,
    alone_beside_full_cable,
    peer,
    sharded,
    stepping_in_backward,
    with_buffers,
)
from compare.hosts import NoHosts, TwoHosts, cable_bytes
from compare.markdown import table
from compare.steps import SMALL, TINY
from compare.turns import Turns

RANKS = 2
RATES = (1, 10)  # Gbit/s
COUNTED_STEPS = 6


def contestants(setup, work):
    limits = [alone(setup, work), alone_beside_full_cable(setup, work)]
    ours = [
        sharded(setup, work, "gloo"),
        with_buffers(setup, work, "gloo", 3),
        stepping_in_backward(setup, work, "gloo"),
    ]
    return [*limits, *ours, peer(setup, work, "fsdp2")]


def costs_of(job):
    """Of a step, the mean over the ranks: what a rank receives, and for how long it waits, where it knows."""
    before = [cable_bytes(process) for process in job.processes()]
    answers = job.ask("steps", count=COUNTED_STEPS)
    after = [cable_bytes(process) for process in job.processes()]
    waited = [answer["waited"] for answer in answers if "waited" in answer]
    return {
        "bytes": statistics.fmean(b - a for a, b in zip(before, after)) / COUNTED_STEPS,
        "waited": statistics.fmean(waited) / COUNTED_STEPS if waited else None,
    }


def run_rate(setup, work, gigabits):
    setup.say(f"  {gigabits} Gbit/s: {work.shape}, {work.dtype}")
    with TwoHosts(gigabits) as hosts, Turns(setup, contestants(setup, work), RANKS, hosts) as turns:
        costs = {job.name: costs_of(job) for job in turns.jobs}
        turns.take()
    medians = {name: statistics.median(seconds) for name, seconds in turns.seconds.items()}
    return {"gigabits": gigabits, "dtype": work.dtype, "shape": str(work.shape), "medians": medians, "costs": costs}


def run(setup):
    if "gloo" not in setup.backends:
        return {"problem": "this build has no gloo backend"}
    shape = TINY if setup.quick else SMALL
    works = [Work(shape, dtype=dtype) for dtype in ("fp32", "bf16")]
    try:
        return {"rows": [run_rate(setup, work, rate) for rate in RATES for work in works]}
    except NoHosts as problem:
        return {"problem": str(problem)}


def milliseconds(seconds):
    return f"{1e3 * seconds:.1f}"


def share(part, whole):
    return f"{100 * min(1.0, max(0.0, part / whole)):.0f} %"


def cells(row, name):
    step, cost = row["medians"][name], row["costs"][name]
    begin = [f"{row['gigabits']} Gbit/s, {row['dtype']}", name, f"{cost['bytes'] / 2**20:.1f}", milliseconds(step)]
    if name.startswith(LIMIT):
        return begin + ["–"] * 5
    on_wire = 8 * cost["bytes"] / (1e9 * row["gigabits"])
    seen, waited = step - row["medians"][LIMIT], cost["waited"]
    waits = ["–", "–"] if waited is None else [milliseconds(waited), share(on_wire - waited, on_wire)]
    return begin + [milliseconds(on_wire), milliseconds(seen), share(on_wire - seen, on_wire), *waits]


def render(result):
    if "problem" in result:
        return [f"Not measured: {result['problem']}."]
    head = [
        "cable",
        "contestant",
        "received, MiB a step",
        "step, ms",
        "on the wire, ms",
        "of that seen, ms",
        "hidden",
        "waited for, ms",
        "not waited for",
    ]
    rows = [cells(row, name) for row in result["rows"] for name in row["medians"]]
    return [f"{result['rows'][0]['shape']}, one rank on each of two hosts:", "", *table(head, rows)]
