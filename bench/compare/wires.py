"""Slow wires: two hosts and a cable between them. How much of the communication is hidden behind the computation?

What a rank receives in a step, by the rate of the cable, is the time that communication alone takes. What a step takes
longer than the plain model's is the part of it that is seen: waits, which this library measures itself, and the
network's own work on processors that compute at the same time. How much the latter takes is shown by steps that
communicate nothing while something else fills the cable.
"""

from compare.contestants import (
    PLAIN,
    Work,
    peer,
    plain,
    plain_beside_full_cable,
    sharded,
    stepping_in_backward,
    with_buffers,
)
from compare.hosts import NoHosts, TwoHosts
from compare.markdown import table
from compare.spread import measured, milliseconds
from compare.steps import SMALL, TINY
from compare.turns import compare_steps

RANKS = 2
RATES = (1, 10)  # Gbit/s


def contestants(setup, work):
    without = [plain(setup, work), plain_beside_full_cable(setup, work)]
    ours = [
        sharded(setup, work, "gloo"),
        with_buffers(setup, work, "gloo", 3),
        stepping_in_backward(setup, work, "gloo"),
    ]
    return [*without, *ours, peer(setup, work, "fsdp2")]


def run_rate(setup, work, gigabits):
    setup.say(f"  {gigabits} Gbit/s: {work.shape}, {work.dtype}")
    with TwoHosts(gigabits) as hosts:
        found = compare_steps(setup, contestants(setup, work), RANKS, hosts)
    return {"gigabits": gigabits, "dtype": work.dtype, "shape": str(work.shape), "contestants": found}


def run(setup):
    if "gloo" not in setup.backends:
        return {"problem": "this build has no gloo backend"}
    shape = TINY if setup.quick else SMALL
    works = [Work(shape, dtype=dtype) for dtype in ("fp32", "bf16")]
    try:
        return {"rows": [run_rate(setup, work, rate) for rate in RATES for work in works]}
    except NoHosts as problem:
        return {"problem": str(problem)}


def share(part, whole):
    return 100 * min(1.0, max(0.0, part / whole))


def percent(shares):
    """Their median, and as its spread half the distance between the quartiles, both in percent of the whole."""
    found = measured(shares)
    return f"{found.median:.0f} ±{found.median * found.spread:.0f} %"


def absolute(seconds):
    """In milliseconds, the spread too: what may be about zero has no share of itself."""
    found = measured(seconds)
    return f"{1e3 * found.median:.1f} ±{1e3 * abs(found.median) * found.spread:.1f}"


def mebibytes(counts):
    return f"{measured(counts).median / 2**20:.1f}"


def cells(row, name):
    found, without = row["contestants"][name], row["contestants"][PLAIN]["seconds"]
    begin = [f"{row['gigabits']} Gbit/s, {row['dtype']}", name, mebibytes(found["received"])]
    begin.append(milliseconds(found["seconds"]))
    if name.startswith(PLAIN):
        return begin + ["–"] * 5
    on_wire = [8 * count / (1e9 * row["gigabits"]) for count in found["received"]]
    seen = [step - plain_step for step, plain_step in zip(found["seconds"], without)]
    hidden = percent(share(wire - part, wire) for wire, part in zip(on_wire, seen))
    waits = ["–", "–"]
    if None not in found["waited"]:
        not_waited = percent(share(wire - part, wire) for wire, part in zip(on_wire, found["waited"]))
        waits = [absolute(found["waited"]), not_waited]
    return begin + [milliseconds(on_wire), absolute(seen), hidden, *waits]


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
    rows = [cells(row, name) for row in result["rows"] for name in row["contestants"]]
    return [f"{result['rows'][0]['shape']}, one rank on each of two hosts:", "", *table(head, rows)]
