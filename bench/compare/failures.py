"""Failures of fsdp-train: how long it takes to go on after a rank was killed, and what kills leave of its time."""

import pathlib
import tempfile

from compare.kill_turns import KINDS, RANKS, Killing
from compare.killed_trainer import BEGINNING, CHECKPOINT, MEMORY
from compare.markdown import table
from compare.spread import measured, with_spread
from compare.steps import LARGE, TINY

GOALS = {MEMORY: 2, CHECKPOINT: 10}  # seconds
EFFECTIVE = 95  # percent, at least
HOT = next(iter(KINDS))


def run(setup):
    """On the disk where the programs lie."""
    shape = TINY if setup.quick else LARGE
    with tempfile.TemporaryDirectory(prefix="failures-", dir=setup.programs) as folder:
        killing = Killing(setup, shape, pathlib.Path(folder))
        setup.say("  kills")
        kills = killing.kills()
        setup.say("  minutes with a kill each")
        minutes = killing.minutes()
    return {"shape": str(shape), "parameters": setup.weights_of(shape)[1], "kills": kills, "minutes": minutes}


def seconds_of(result, kind, source):
    return [kill["seconds"] for kill in result["kills"]["kills"] if (kill["kind"], kill["source"]) == (kind, source)]


def shown(values, unit=""):
    found = measured(values)
    return with_spread(f"{found.median:.2f}{unit}", found)


def kills_row(result, kind, source):
    seconds = seconds_of(result, kind, source)
    goal = str(GOALS[source]) if source in GOALS else "–"
    figures = [shown(seconds), f"{min(seconds):.2f}", f"{max(seconds):.2f}"]
    return [source, f"`{kind}`", str(len(seconds)), *figures, goal]


def render_kills(result):
    head = ["goes on from", "started with", "kills", "s", "fastest, s", "slowest, s", "goal, s"]
    found = [(kind, source) for kind in KINDS for source in (MEMORY, CHECKPOINT, BEGINNING)]
    rows = [kills_row(result, kind, source) for kind, source in found if seconds_of(result, kind, source)]
    steps = shown(result["kills"]["steps"], " s")
    sentence = (
        f"fsdp-train with {result['parameters'] / 1e6:.3g} M parameters ({result['shape']}), {RANKS} ranks and a "
        f"checkpoint beside every {result['kills']['save_every']} steps is started anew in each turn, and a random "
        f"rank is killed by SIGKILL at random moments: counted is the time from there to the end of the next step in "
        f"the record, less a step ({steps}); the goals are {GOALS[MEMORY]} s from memory and {GOALS[CHECKPOINT]} s "
        f"from a checkpoint, which `{HOT}` goes on from, too, where a kill falls in the midst of an update:"
    )
    return [sentence, "", *table(head, rows)]


def shares(result):
    """By minute."""
    return [minute["counting"] / minute["seconds"] for minute in result["minutes"]["minutes"]]


def effective(result):
    """Of the whole time, in percent (ETTR)."""
    minutes = result["minutes"]["minutes"]
    return 100 * sum(minute["counting"] for minute in minutes) / sum(minute["seconds"] for minute in minutes)


def percent(found):
    """The spread in percent of the time, too."""
    return f"{100 * found.median:.1f} ±{100 * found.median * found.spread:.1f} %"


def render_minutes(result):
    minutes = result["minutes"]
    seconds = sum(minute["seconds"] for minute in minutes["minutes"])
    head = ["time, s", "kills", "of them on from memory", "ETTR", "a minute, median", "lowest minute"]
    by_minute = shares(result)
    row = [f"{seconds:.0f}", str(len(minutes["sources"])), str(minutes["sources"].count(MEMORY))]
    row += [f"{effective(result):.1f} %", percent(measured(by_minute)), f"{100 * min(by_minute):.1f} %"]
    sentence = (
        f"The same model trains with `{HOT}` and a checkpoint beside every {minutes['save_every']} steps, and a random "
        f"rank is killed at a random moment of each minute: ETTR, the effective training time ratio, is the share of "
        f"the time that was spent in steps that count, of a repeated one the last time; the goal is at least "
        f"{EFFECTIVE} %:"
    )
    return [sentence, "", *table(head, [row])]


def render(result):
    return [*render_kills(result), "", *render_minutes(result)]


def remarks(result):
    model = f"fsdp-train with {result['parameters'] / 1e6:.3g} M parameters"
    for kind, source in zip(KINDS, GOALS):
        if seconds := seconds_of(result, kind, source):
            what = f"From the kill of a rank to the next step, from {source}"
            yield what, f"{model} takes {shown(seconds, ' s')} (goal: {GOALS[source]} s)"
    yield "A kill in each minute", f"{effective(result):.1f} % of the time is spent in steps that count (goal: at least {EFFECTIVE} %)"
