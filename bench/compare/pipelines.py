"""Pipelines: the same schedules, stages and micro-batches in this library and in torch.distributed.pipelining."""

import dataclasses
import os

from compare.contestants import Contestant, Shape, Work, keeping_memory
from compare.markdown import table
from compare.spread import measured, milliseconds, multiple, ratio, with_spread
from compare.turns import Turns

PEER = "PyTorch"
ALONE = "one process"
MICRO_BATCHES = 8
# By our names: how often a rank has a stage, and PyTorch's class of the same order.
SCHEDULES = {
    "OneAtATime": (1, None),
    "AllForwardAllBackward": (1, "ScheduleGPipe"),
    "OneForwardOneBackward": (1, "Schedule1F1B"),
    "Interleaved": (2, "ScheduleInterleaved1F1B"),
    "ZeroBubble": (1, "ScheduleInterleavedZeroBubble"),
}
USUAL = "OneForwardOneBackward"
RANKS = (2, 4)
ROUNDS = (7, 7)
# The vocabulary is small, so that the head takes little beside a block, and all stages take equally long. Passes of the
# wide model take so long that messages and the order of passes hardly count; those of the others do not.
WIDE = Shape(layers=8, width=256, heads=4, vocabulary=64)
NARROW = Shape(layers=8, width=128, heads=4, vocabulary=64)
SLIM = Shape(layers=8, width=64, heads=4, vocabulary=64)
QUICK_SHAPE = Shape(layers=8, width=32, heads=2, vocabulary=64, context=16)


def works(quick):
    if quick:
        return [Work(QUICK_SHAPE, batch=1, ranks=ranks) for ranks in RANKS]
    return [Work(shape, batch, ranks=ranks) for shape, batch in ((WIDE, 4), (NARROW, 1), (SLIM, 1)) for ranks in RANKS]


def cuts_of(layers, stages):
    """Blocks of each stage: equally many layers, the embedding before the first and the head after the last."""
    cuts = [layers // stages] * stages
    cuts[0] += 1
    cuts[-1] += 1
    return cuts


def options_of(work, schedule, ranks):
    cuts = cuts_of(work.shape.layers, ranks * SCHEDULES[schedule][0])
    return ["--schedule", schedule, "--micro-batches", str(MICRO_BATCHES), "--cuts", *map(str, cuts)]


def ours(setup, work, schedule, ranks):
    command = [setup.program("train_pipeline"), "--backend", setup.backends[0]] + work.arguments(setup)
    return command + options_of(work, schedule, ranks) + ["--stages-per-rank", str(SCHEDULES[schedule][0])]


def theirs(setup, work, schedule, ranks):
    """It keeps the memory that it frees, as a pipeline of ours does by itself."""
    command = setup.module("peer.pipeline") + work.arguments(setup) + options_of(work, schedule, ranks)
    return keeping_memory(command)


def name_of(contestant, schedule):
    return f"{contestant}, {schedule}"


def contestants(setup, work):
    """All of ours, those of PyTorch that have one order with them, and one process that runs all micro-batches."""
    mine = f"fsdp {setup.backends[0]}"
    found = [Contestant(ALONE, ours(setup, work, USUAL, 1), ranks=1)]
    for schedule, (_, counterpart) in SCHEDULES.items():
        found.append(Contestant(name_of(mine, schedule), ours(setup, work, schedule, work.ranks)))
        if counterpart:
            found.append(Contestant(name_of(PEER, schedule), theirs(setup, work, schedule, work.ranks)))
    return found


def run_work(setup, work):
    setup.say(f"  {work.shape}, {work.ranks} ranks")
    with Turns(setup, contestants(setup, work), work.ranks) as turns:
        turns.take(ROUNDS)
    return {
        "contestants": turns.found,
        "ranks": work.ranks,
        "shape": str(work.shape),
        "parameters": setup.weights_of(work.shape)[1],
        "work": dataclasses.asdict(work),
    }


def run(setup):
    return {
        "ours": f"fsdp {setup.backends[0]}",
        "cores": cores(),
        "rows": [run_work(setup, work) for work in works(setup.quick)],
    }


def cores():
    return len(os.sched_getaffinity(0))


def percent(values):
    """Of shares; the spread in percent points."""
    found = measured(100 * value for value in values)
    return f"{found.median:.1f} ±{found.spread * abs(found.median):.1f}"


def row_of(result, row, schedule):
    """With idle shares where each rank has a core."""
    found = row["contestants"]
    mine = found[name_of(result["ours"], schedule)]
    peer = found.get(name_of(PEER, schedule), {})
    speed = measured(alone / step for alone, step in zip(found[ALONE]["seconds"], mine["seconds"]))
    cells = [
        f"`{schedule}`",
        milliseconds(mine["seconds"]),
        milliseconds(peer["seconds"]) if peer else "–",
        multiple(mine["seconds"], peer.get("seconds")),
        with_spread(f"{speed.median:.2f}", speed),
    ]
    if row["ranks"] > result["cores"]:
        return cells
    shares = [percent(mine[name]) for name in ("idle_formula", "idle_of_passes", "idle")]
    return cells + [*shares, percent(peer["idle"]) if peer else "–"]


def loss_difference(row):
    """The largest difference to one process, of any step and contestant."""
    first = row["contestants"][ALONE]["losses"]
    others = [found["losses"] for found in row["contestants"].values()]
    return max(abs(a - b) for losses in others for a, b in zip(losses, first))


def head_of(result, row):
    names = [result["ours"], PEER]
    head = ["schedule", *(f"{name}, ms" for name in names), f"of {PEER}", "speed-up"]
    if row["ranks"] > result["cores"]:
        return head
    return head + ["idle, formula", "of the passes", *(f"idle, {name}" for name in names)]


def row_lines(result, row):
    head = head_of(result, row)
    alone = [ALONE, milliseconds(row["contestants"][ALONE]["seconds"]), "–", "–", "1"]
    rows = [alone + ["–"] * (len(head) - len(alone))]
    rows += [
        row_of(result, row, schedule)
        for schedule in SCHEDULES
        if name_of(result["ours"], schedule) in row["contestants"]
    ]
    crowded = f" on {result['cores']} cores: ranks share them, so idle shares say nothing"
    settings = row["work"]
    title = (
        f"{row['ranks']} ranks{crowded if row['ranks'] > result['cores'] else ''}. {row['shape']}, "
        f"{row['parameters'] / 1e6:.3g} M parameters, {MICRO_BATCHES} micro-batches of "
        f"{settings['batch']} x {settings['shape']['context']}."
    )
    rest = f"The largest difference of a loss to that of one process is {loss_difference(row):.1e}."
    return ["", f"{title} {rest}", "", *table(head, rows)]


def render(result):
    counterparts = ", ".join(f"`{theirs}` for `{name}`" for name, (_, theirs) in SCHEDULES.items() if theirs)
    lines = [
        f"A step has {MICRO_BATCHES} micro-batches, in fp32, with fused AdamW. A `Pipeline` keeps freed memory "
        "by itself. PyTorch's processes keep it by a setting of the allocator (`GLIBC_TUNABLES`). `Interleaved` has 2 stages per rank. "
        f"PyTorch's schedules over Gloo: {counterparts}. *Speed-up* is how many times faster a step is "
        "than that of one process with one thread. *Idle* is the share of a step, in percent, in which a rank ran no "
        "pass: by the formula of the schedule, and measured. The formula of `ZeroBubble` has the mean times of the "
        "three kinds of passes. The formulas of the others need no times. The column *of the passes* is the share of "
        "the same order if each pass takes as long as it did, and messages take no time."
    ]
    for row in result["rows"]:
        lines += row_lines(result, row)
    return lines


def summary(result):
    for row in result["rows"]:
        for schedule in (USUAL, "ZeroBubble"):
            mine = name_of(result["ours"], schedule)
            theirs_too = row["contestants"].get(name_of(PEER, schedule))
            if mine in row["contestants"] and theirs_too:
                of_peer = ratio(row["contestants"][mine]["seconds"], theirs_too["seconds"])
                yield f"A pipeline, {row['ranks']} ranks, {row['shape']}, {schedule}", result["ours"], {f"{PEER}'s": of_peer}
