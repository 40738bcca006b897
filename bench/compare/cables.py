"""A broadcast over slow cables: as a tree, or from the source to one rank after the other.

Each rank is on a host of its own (compare.hosts), with a cable to a switch. A broadcast takes as long as a call in
compare.calls. Interfaces count the bytes sent.
"""

import contextlib

from compare.calls import ONE_BY_ONE, TREE, contestants, turn
from compare.hosts import HostsOnASwitch, NoHosts, sent_bytes
from compare.job import Job
from compare.markdown import table
from compare.spread import measured, with_spread

HOSTS, MEGABITS = 8, 80  # of a cable, each second
BYTES, QUICK_BYTES = 5_000_000, 400_000
ROUNDS, QUICK_ROUNDS = 3, 2


def measure(setup):
    """Seconds of a broadcast, and the bytes that the source and the busiest other rank sent for it."""
    size = QUICK_BYTES if setup.quick else BYTES
    found = {}
    with HostsOnASwitch(HOSTS, MEGABITS) as hosts, contextlib.ExitStack() as stack:
        invited = contestants(setup, [name for name in setup.backends if name == "gloo"])
        jobs = [stack.enter_context(Job(c.name, c.command, HOSTS, setup.scratch, hosts)) for c in invited]
        for number in range(QUICK_ROUNDS if setup.quick else ROUNDS):
            setup.say(f"  {HOSTS} hosts, {MEGABITS} Mbit/s: round {number + 1}")
            for job in jobs if number % 2 == 0 else reversed(jobs):
                for call in (TREE, ONE_BY_ONE):
                    before = [sent_bytes(process) for process in job.processes()]
                    seconds = turn(job, call, size, 1)
                    sent = [(sent_bytes(process) - old) / 2 for process, old in zip(job.processes(), before)]
                    row = found.setdefault(f"{job.name}: {call}", {"seconds": [], "root": [], "others": []})
                    row["seconds"].append(seconds)
                    row["root"].append(sent[0])
                    row["others"].append(max(sent[1:]))
    return {"bytes": size, "megabits": MEGABITS, "hosts": HOSTS, "rows": found}


def run(setup):
    try:
        return measure(setup)
    except NoHosts as problem:
        return {"problem": str(problem)}


def on_cable(cables, count):
    """Seconds of as many tensors one after the other."""
    return 8 * count * cables["bytes"] / (1e6 * cables["megabits"])


def render(cables):
    if "problem" in cables:
        return [f"A broadcast over slow cables was not measured: {cables['problem']}."]
    megabytes = cables["bytes"] / 1e6
    peers = cables["hosts"] - 1
    text = (
        f"A broadcast of {megabytes:.3g} MB to {peers} ranks, each on a host with a cable of "
        f"{cables['megabits'] / 8:.3g} MB/s to a switch. The source's cable alone takes "
        f"{on_cable(cables, peers):.3g} s for {peers} tensors, and {on_cable(cables, 3):.3g} s for the 3 that the "
        "source of a tree sends:"
    )
    rows = []
    for name, found in cables["rows"].items():
        seconds = measured(found["seconds"])
        mebibytes = [f"{measured(found[who]).median / 1e6:.1f}" for who in ("root", "others")]
        rows.append([name, with_spread(f"{seconds.median:.2f}", seconds), *mebibytes])
    head = ["contestant: call", "seconds", "MB sent by the source", "MB sent by the busiest other rank"]
    return [text, "", *table(head, rows)]
