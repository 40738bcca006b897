"""Slow wires: two hosts and a cable between them. How much of the communication is hidden behind the computation?

What a rank receives in a step, by the rate of the cable, is the time that communication alone takes; what a step takes
longer than without communication is the part of it that shows.
"""

import statistics

from compare.contestants import LIMIT, Work, alone, peer, sharded, stepping_in_backward
from compare.hosts import NoHosts, TwoHosts, cable_bytes
from compare.markdown import table
from compare.steps import SMALL, TINY
from compare.turns import Turns, job_steps

RANKS = 2
RATES = (1, 10)  # Gbit/s


def contestants(setup, work):
    ours = [sharded(setup, work, "gloo"), stepping_in_backward(setup, work, "gloo")]
    return [alone(setup, work), *ours, peer(setup, work, "fsdp2")]


def step_bytes(job):
    """What a rank receives in a step, on average."""
    before = [cable_bytes(process) for process in job.processes()]
    job_steps(job, 2)
    after = [cable_bytes(process) for process in job.processes()]
    return statistics.fmean(b - a for a, b in zip(before, after)) / 2


def run_rate(setup, work, gigabits):
    setup.say(f"  {gigabits} Gbit/s: {work.shape}, {work.dtype}")
    with TwoHosts(gigabits) as hosts, Turns(setup, contestants(setup, work), RANKS, hosts) as turns:
        received = {job.name: step_bytes(job) for job in turns.jobs}
        turns.take()
    medians = {name: statistics.median(seconds) for name, seconds in turns.seconds.items()}
    return {"gigabits": gigabits, "dtype": work.dtype, "shape": str(work.shape), "medians": medians, "bytes": received}


def run(setup):
    if "gloo" not in setup.backends:
        return {"problem": "this build has no gloo backend"}
    shape = TINY if setup.quick else SMALL
    works = [Work(shape, dtype=dtype) for dtype in ("fp32", "bf16")]
    try:
        return {"rows": [run_rate(setup, work, rate) for rate in RATES for work in works]}
    except NoHosts as problem:
        return {"problem": str(problem)}


def cells(row, name):
    wire_seconds = 8 * row["bytes"][name] / (1e9 * row["gigabits"])
    shown_seconds = row["medians"][name] - row["medians"][LIMIT]
    hidden = "–" if name == LIMIT else f"{100 * min(1.0, max(0.0, 1 - shown_seconds / wire_seconds)):.0f} %"
    milliseconds = [f"{1e3 * seconds:.1f}" for seconds in (row["medians"][name], wire_seconds, shown_seconds)]
    return [
        f"{row['gigabits']} Gbit/s, {row['dtype']}",
        name,
        f"{row['bytes'][name] / 2**20:.1f}",
        *milliseconds,
        hidden,
    ]


def render(result):
    if "problem" in result:
        return [f"Not measured: {result['problem']}."]
    head = ["cable", "contestant", "received, MiB a step", "step, ms", "on the wire, ms", "of that seen, ms", "hidden"]
    rows = [cells(row, name) for row in result["rows"] for name in row["medians"]]
    return [f"{result['rows'][0]['shape']}, one rank on each of two hosts:", "", *table(head, rows)]
