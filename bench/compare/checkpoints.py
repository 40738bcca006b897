"""Checkpoints: saves and loads beside plain files and PyTorch's, loads on other numbers of ranks, and for how long
saves keep training waiting."""

import dataclasses
import pathlib
import tempfile

from compare.checkpoint_turns import PEER, PLAIN_FILES, SAVED_ON, compare_saves, load_on_ranks, save_beside_steps
from compare.contestants import Work
from compare.markdown import table
from compare.spread import measured, milliseconds, multiple, ratio, with_spread
from compare.steps import LARGE, TINY

# The goals, of the rate of plain files, of the time of a load on as many ranks as saved, and of the time of training.
RATE, LONGER, PAUSE = 0.9, 1.2, 0.005


def run(setup):
    """On the disk where the programs lie."""
    work = Work(TINY if setup.quick else LARGE, ranks=SAVED_ON)
    with tempfile.TemporaryDirectory(prefix="checkpoints-", dir=setup.programs) as name:
        folder = pathlib.Path(name)
        setup.say("  saves and loads")
        saves = compare_saves(setup, work, folder)
        setup.say("  loads on other numbers of ranks")
        loads = load_on_ranks(setup, work, folder)
        setup.say("  saves beside steps")
        beside = save_beside_steps(setup, work, folder)
    return {
        "shape": str(work.shape),
        "parameters": setup.weights_of(work.shape)[1],
        "work": dataclasses.asdict(work),
        "saves": saves,
        "loads": loads,
        "beside": beside,
    }


def ours(result):
    return next(iter(result["saves"]))


def percent(shares, digits):
    """The spread in percent of the whole, too: what may be about zero has no share of itself."""
    found = measured(100 * share for share in shares)
    return f"{found.median:.{digits}f} ±{abs(found.median) * found.spread:.{digits}f} %"


def cells(found, name, do):
    """Of a save or a load."""
    size, seconds = found[name]["bytes"], found[name][do]
    rate = measured(size / each / 1e9 for each in seconds)
    ratios = [multiple(seconds, found[other][do]) for other in (PLAIN_FILES, PEER)]
    return [milliseconds(seconds, 0), with_spread(f"{rate.median:.2f}", rate), *ratios]


def render_saves(result):
    head = ["", "MB"]
    head += [f"{do}, {unit}" for do in ("save", "load") for unit in ("ms", "GB/s", f"of {PLAIN_FILES}", f"of {PEER}")]
    head.append("of that read from the disk")
    rows = []
    for name, found in result["saves"].items():
        both = [cell for do in ("save", "load") for cell in cells(result["saves"], name, do)]
        rows.append([name, f"{found['bytes'] / 1e6:.1f}", *both, percent(found["from disk"], 0)])
    sentence = (
        f"{result['shape']}, {result['parameters'] / 1e6:.3g} M parameters with AdamW's moments in fp32 are saved, and "
        f"loaded after the page cache has given the files up (`posix_fadvise`), by {SAVED_ON} ranks, in turns with as "
        f"many processes that write and sync, or read, as many bytes as *{PLAIN_FILES}*, and with "
        f"`torch.distributed.checkpoint` and FSDP2 over Gloo (*{PEER}*); the goal is {100 * RATE:g} % of the rate of "
        f"plain files, a ratio of at most {1 / RATE:.2f}:"
    )
    return [sentence, "", *table(head, rows)]


def render_resumes(result):
    found = result["saves"]
    rows = []
    for name in (ours(result), PLAIN_FILES):
        seconds = found[name]["resume"]
        rate = measured(found[name]["bytes"] / each / 1e9 for each in seconds)
        times = multiple(seconds, found[PLAIN_FILES]["resume"])
        rows.append([name, milliseconds(seconds, 0), with_spread(f"{rate.median:.2f}", rate), times])
    sentence = (
        "A job that goes on from a checkpoint loads it into a model that has no values yet and an optimizer that has "
        f"made no step, which have nothing to lose; the goal is the same, and *{PLAIN_FILES}* are read into memory "
        "that has held nothing yet, too:"
    )
    return [sentence, "", *table(["", "load, ms", "GB/s", f"of {PLAIN_FILES}"], rows)]


def seconds_on(result, ranks):
    return next(row["seconds"] for row in result["loads"] if row["ranks"] == ranks)


def render_loads(result):
    rows = []
    for row in result["loads"]:
        times = multiple(row["seconds"], seconds_on(result, SAVED_ON))
        rows.append([str(row["ranks"]), milliseconds(row["seconds"], 0), times])
    sentence = (
        f"Jobs of so many ranks take turns to load a checkpoint that {SAVED_ON} ranks saved, to go on from it, after "
        f"the page cache has given it up each time; the goal is at most {LONGER} times as long as on {SAVED_ON}:"
    )
    return [sentence, "", *table(["ranks", "load, ms", f"of {SAVED_ON} ranks"], rows)]


def pauses(result):
    """By round, as shares of the time of as many steps without a save."""
    beside = result["beside"]
    return [paused / seconds for paused, seconds in zip(beside["paused"], beside["without"])]


def render_beside(result):
    beside = result["beside"]
    steps = f"{beside['every']} steps"
    head = ["", f"{steps}, ms", "of those without", "paused, ms", "of training", "until the commit, ms"]
    rows = [
        ["without a save", milliseconds(beside["without"], 0), "1", "–", "–", "–"],
        [
            "`save_checkpoint_async` before the first",
            milliseconds(beside["beside"], 0),
            multiple(beside["beside"], beside["without"]),
            milliseconds(beside["paused"], 2),
            percent(pauses(result), 3),
            milliseconds(beside["until commit"], 0),
        ],
    ]
    sentence = (
        f"{SAVED_ON} ranks take {steps} without a save and {steps} with one beside them, in turns; the goal is that "
        f"steps stand still for it for at most {100 * PAUSE:g} % of their time:"
    )
    return [sentence, "", *table(head, rows)]


def render(result):
    tables = [render_saves(result), render_resumes(result), render_loads(result), render_beside(result)]
    return [line for lines in tables for line in ["", *lines]][1:]


def summary(result):
    found, name = result["saves"], ours(result)
    for do, words in (("save", "saved"), ("load", "loaded"), ("resume", "loaded to go on from it")):
        others = [other for other in (PLAIN_FILES, PEER) if do in found[other]]
        multiples = {other: ratio(found[name][do], found[other][do]) for other in others}
        yield f"A checkpoint of {found[name]['bytes'] / 1e6:.0f} MB, {words} on {SAVED_ON} ranks", name, multiples
    on_saved = seconds_on(result, SAVED_ON)
    times = {row["ranks"]: ratio(row["seconds"], on_saved) for row in result["loads"] if row["ranks"] != SAVED_ON}
    slowest = max(times, key=lambda ranks: times[ranks].median)
    words = "rank" if slowest == 1 else "ranks"
    on_others = f"{result['loads'][0]['ranks']} to {result['loads'][-1]['ranks']}"
    what = f"A checkpoint of {SAVED_ON} ranks, loaded on {on_others}"
    yield what, f"the slowest of the others, {slowest} {words},", {f"{SAVED_ON} ranks": times[slowest]}


def remarks(result):
    share = percent(pauses(result), 3)
    what = f"A save every {result['beside']['every']} steps, beside them"
    yield what, f"training stands still for {share} of its time (goal: at most {100 * PAUSE:g} %)"
