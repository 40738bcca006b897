#!/usr/bin/env python3
"""Draws docs/pictures/steps/: a training step by DDP and by FSDP, with the numbers that each of four ranks holds.

  tools/draw_steps.py [FOLDER]

The model is y = w · x with four weights, the loss (y - target)² / 2. Each rank has one sample. The numbers are computed
here, and both ways must end in equal weights.
"""

from drawing import (ABSENT, BOLD, FOUR, GREEN, OUTLINE, SMALL, box, fill, letters, named_box, place, style, svg,
                     text, write)  # fmt: skip

RATE = 0.1
# Of each rank: the weights that its constructor made, its sample, its target.
FIRST = [[0.5, 1, 1.5, 2], [0.3, 0.8, 0.1, 1.2], [1.1, 0.6, 0.9, 0.4], [0.7, 1.3, 0.2, 1.6]]
SAMPLES = [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]]
TARGETS = [3.5, 6.5, 1.5, 8.5]
RANKS = range(4)

CELL, HEIGHT, ROW, TOP = 31, 22, 46, 36
LEFT, PITCH = 132, 138  # where rank 0 begins, and the distance to the next rank
WIDTH = LEFT + 4 * PITCH
STYLE = style(
    {"head": BOLD, "frame": OUTLINE, "empty": ABSENT, **FOUR, "mean": fill(GREEN), "on": letters(11), "small": SMALL}
)


def output(weights, rank):
    return sum(w * x for w, x in zip(weights, SAMPLES[rank]))


def gradient(weights, rank):
    error = output(weights, rank) - TARGETS[rank]
    return [error * x for x in SAMPLES[rank]]


def mean(values):
    return sum(values) / len(values)


def stepped(weight, slope):
    return weight - RATE * slope


def number(value):
    return f"{value + 0:g}".replace("-", "−")  # + 0: no negative zero


def cells(x, y, values, kind):
    """`values`: by parameter; None is an absent one. `kind`: the class of all, or "" for that of each parameter."""
    lines = []
    for place_of, (value, own) in enumerate(zip(values, FOUR)):
        left = x + place_of * (CELL + 2)
        if value is None:
            lines.append(box(left, y, CELL, HEIGHT, "empty"))
        else:
            lines += named_box(left, y, CELL, HEIGHT, kind or own, number(value))
    return lines


def row(y, name, note, is_sent, content):
    """`content`: by rank, either values and their class, or two lines of words."""
    lines = [text(4, y + 10, name, "head", "start"), text(4, y + 25, note, "small", "start")]
    if is_sent:
        lines.append(box(LEFT - 6, y - 6, WIDTH - LEFT, HEIGHT + 12, "frame", 8))
    for rank, (first, second) in zip(RANKS, content):
        x = LEFT + rank * PITCH
        if isinstance(first, list):
            lines += cells(x, y, first, second)
        else:
            lines += [text(x, y + 9, first, "small", "start"), text(x, y + 23, second, "small", "start")]
    return lines


def only(rank, values):
    return [value if place_of == rank else None for place_of, value in enumerate(values)]


def samples(weights):
    return [(f"x = ({', '.join(map(str, SAMPLES[rank]))})", f"y = {output(weights, rank):g}, target {TARGETS[rank]:g}")
            for rank in RANKS]  # fmt: skip


def ddp():
    """The rows, and the weights at the end."""
    weights = [FIRST[0]] * 4
    slopes = [gradient(weights[rank], rank) for rank in RANKS]
    summed = [[mean(column) for column in zip(*slopes)]] * 4
    after = [[stepped(w, g) for w, g in zip(weights[rank], summed[rank])] for rank in RANKS]
    return after[0], [
        ("start", "weights of each rank", False, [(FIRST[rank], "") for rank in RANKS]),
        ("broadcast", "rank 0's weights", True, [(values, "") for values in weights]),
        ("forward", "its own sample", False, samples(weights[0])),
        ("backward", "(y − target) · x", False, [(values, "") for values in slopes]),
        ("all-reduce", "mean gradients", True, [(values, "mean") for values in summed]),
        ("step", "w − 0.1 · gradient", False, [(values, "") for values in after]),
        ("zero_grad", "no gradients", False, [([None] * 4, "")] * 4),
    ]


def fsdp():
    shards = FIRST[0]  # rank r holds weight r
    full = [list(shards) for _ in RANKS]
    slopes = [gradient(full[rank], rank) for rank in RANKS]
    reduced = [mean([slopes[peer][rank] for peer in RANKS]) for rank in RANKS]
    after = [stepped(shards[rank], reduced[rank]) for rank in RANKS]
    return after, [
        ("shard", "one weight for each", True, [(only(rank, shards), "") for rank in RANKS]),
        ("gather", "all weights", True, [(values, "") for values in full]),
        ("forward", "its own sample", False, samples(full[0])),
        ("backward", "(y − target) · x", False, [(values, "") for values in slopes]),
        ("reduce-scatter", "one mean for each", True, [(only(rank, reduced), "mean") for rank in RANKS]),
        ("step", "w − 0.1 · gradient", False, [(only(rank, after), "") for rank in RANKS]),
        ("zero_grad", "no gradients", False, [([None] * 4, "")] * 4),
        ("gather", "in the next forward", True, [(after, "")] * 4),
    ]


def picture(title, rows):
    lines = [STYLE, *(text(LEFT + rank * PITCH + 64, 18, f"rank {rank}", "head") for rank in RANKS)]
    for place_of, one in enumerate(rows):
        lines += row(TOP + place_of * ROW, *one)
    end = TOP + len(rows) * ROW
    key = "Framed: all ranks communicate. Dashed: not there. Green: means over the ranks."
    lines.append(text(4, end + 4, key, "small", "start"))
    return svg(title, WIDTH, end + 14, lines)


def main():
    (by_ddp, ddp_rows), (by_fsdp, fsdp_rows) = ddp(), fsdp()
    if by_ddp != by_fsdp:
        raise SystemExit(f"draw_steps: error: DDP ends in {by_ddp}, FSDP in {by_fsdp}")
    folder = place("steps")
    folder.mkdir(parents=True, exist_ok=True)
    write(picture("A training step by DDP: weights and gradients of four ranks", ddp_rows), folder / "ddp.svg")
    write(picture("The same step by FSDP: weights and gradients of four ranks", fsdp_rows), folder / "fsdp.svg")


if __name__ == "__main__":
    main()
