#!/usr/bin/env python3
"""Draws docs/pictures/failover.svg: a rank of four is killed in step 8, and how the run goes on, in three ways.

  tools/draw_failover.py [FILE]

The order is that of docs/failures.md. Lengths are no measurement.
"""

from drawing import BLUE, GREEN, ORANGE, PURPLE, TEAL, box, colours, legend, named_box, place, svg, text, write

RANKS, KILLED = range(4), 2
# In steps. Until the launcher ends them, the other ranks wait for the one that was killed.
STEP, START, SAVE, BROKEN, WAIT, PAUSE = 1, 1.7, 0.3, 0.5, 0.35, 1.1
LEFT, SCALE, BAR, HEAD, GAP, END = 68, 56, 20, 28, 16, 10.2  # SCALE: px of a step; END: in steps
WIDTH = LEFT + END * SCALE + 8
STYLE = colours({"step": BLUE, "lost": ORANGE, "broken": PURPLE, "start": TEAL, "save": GREEN})
LEGEND = [("step", "a step"), ("lost", "a step that is lost"), ("broken", "the broken step"), ("save", "a checkpoint")]


def before(lost):
    """Kinds, lengths and words until the broken step. `lost`: the class of the steps after the save."""
    return [("step", STEP, "5"), ("save", SAVE, ""), (lost, STEP, "6"), (lost, STEP, "7")]


# The name; an option of fsdp-train; the steps before the broken one; the launcher's last act; how the ranks start; the
# steps after it, with their lengths; the ranks that go on.
WAYS = [
    ("from memory", "--hot-restart", before("step"), "starts 4 ranks", "copies the state",
     [(8, STEP), (9, STEP), (10, STEP)], 4),
    ("from the last checkpoint", "--max-restarts", before("lost"), "starts 4 ranks", "loads step 5",
     [(6, STEP), (7, STEP), (8, STEP)], 4),
    ("with the ranks that are left", "--elastic 3:4", before("lost"), "starts 3 ranks", "loads step 5",
     [(6, 2 * STEP), (7, 2 * STEP)], 3),
]  # fmt: skip


def spans(begin, parts, y):
    """Boxes of these kinds, lengths and words, one after the other, until the picture ends."""
    lines = []
    for kind, length, words in parts:
        width = min(length, END - begin) * SCALE
        lines += named_box(LEFT + begin * SCALE + 0.5, y, width - 1, BAR - 3, kind, words)
        begin += length
    return lines


def end_of(earlier):
    """When the rank is killed."""
    return sum(length for _, length, _ in earlier) + BROKEN


def rank_row(rank, y, earlier, start, later, left):
    killed_at = end_of(earlier)
    lines = [text(4, y + 13, f"rank {rank}", "small", "start"), box(LEFT, y, END * SCALE, BAR - 3, "idle", 0)]
    lines += spans(0, [*earlier, ("broken", BROKEN + (0 if rank == KILLED else WAIT), "8")], y)
    if rank == KILLED:
        lines.append(text(LEFT + killed_at * SCALE + 6, y + 13, "killed", "head", "start"))
    if rank < left:
        steps = [("step", length, str(step)) for step, length in later]
        lines += spans(killed_at + PAUSE, [("start", START, start), *steps], y)
    return lines


def chart(top, name, option, earlier, launcher, start, later, left):
    lines = [text(4, top + 16, name, "head", "start"), text(LEFT + END * SCALE, top + 16, option, "small", "end")]
    y = top + HEAD
    lines += [text(4, y + 13, "launcher", "small", "start"), box(LEFT, y, END * SCALE, BAR - 3, "idle", 0)]
    words = f"names rank {KILLED}, ends the others, {launcher}"
    lines.append(text(LEFT + end_of(earlier) * SCALE + 6, y + 13, words, "small", "start"))
    for rank in RANKS:
        lines += rank_row(rank, y + (rank + 1) * BAR, earlier, start, later, left)
    return lines, y + (len(RANKS) + 1) * BAR + GAP


def main():
    lines, y = [STYLE], 0
    for way in WAYS:
        more, y = chart(y, *way)
        lines += more
    lines += legend(LEFT, y - 4, LEGEND)
    title = "A rank is killed, and the run goes on in three ways"
    write(svg(title, f"{WIDTH:g}", y + 16, lines), place("failover.svg"))


if __name__ == "__main__":
    main()
