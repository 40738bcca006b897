#!/usr/bin/env python3
"""Draws docs/pictures/collectives/: for each call of a World, which rank holds what before and after it.

  tools/draw_collectives.py [FOLDER]
"""

from drawing import ABSENT, BOLD, FOUR, GREEN, OUTLINE, arrow_head, fill, letters, place, style, svg, text, way, write

RANKS = 4
LETTERS = "abcd"
SUM = "sum"
CELL, GAP, HEIGHT = 38, 4, 30  # of a cell: its width, the room to the next one, its height
ROW = 42
TOP, LEFT, ARROW = 34, 66, 76

STYLE = style(
    {"head": BOLD, "frame": OUTLINE, "empty": ABSENT, **FOUR, "sum": fill(GREEN), "on": letters(12),
     "way": way("arrow"), "note": "font-size: 12px; font-style: italic"}
) + "\n" + arrow_head()  # fmt: skip


def cell(x, y, words, width=CELL):
    """Coloured by the rank that it comes from; no words: there is no tensor."""
    kind = "empty" if not words else words[0] if words[0] in LETTERS and "+" not in words else SUM
    lines = [f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{HEIGHT}" rx="4"/>']
    return lines + ([text(x + width // 2, y + HEIGHT // 2 + 4, words, "on")] if words else [])


def cells(x, y, row, columns):
    """A row with fewer cells than columns has one wide cell."""
    width = columns * (CELL + GAP) - GAP
    if len(row) == 1:
        return cell(x, y, row[0], width)
    return [line for number, words in enumerate(row) for line in cell(x + number * (CELL + GAP), y, words)]


def before_and_after(title, call, before, after):
    """`before` and `after`: for each rank a list of what it has, as the letters of the ranks that it came from."""
    columns = [max(2, max(map(len, side))) for side in (before, after)]
    widths = [count * (CELL + GAP) - GAP for count in columns]
    starts = [LEFT + 14, LEFT + 14 + widths[0] + ARROW]
    width = starts[1] + widths[1] + 14
    lines = [text(start + size // 2, 20, name, "head") for start, size, name in zip(starts, widths, ("before", "after"))]
    ranks = len(before)
    for rank in range(ranks):
        y = TOP + rank * ROW
        lines.append(f'<rect class="frame" x="4" y="{y - 4}" width="{width - 8}" height="{HEIGHT + 8}" rx="8"/>')
        lines.append(text(14, y + HEIGHT // 2 + 4, f"rank {rank}", "head", "start"))
        for start, side, count in zip(starts, (before, after), columns):
            lines += cells(start, y, side[rank], count)
    middle = TOP + ranks * ROW // 2 - 6
    begin = starts[0] + widths[0] + 12
    lines.append(f'<path class="way" d="M{begin} {middle}H{begin + ARROW - 26}"/>')
    return svg(f"{call}: {title}", width, TOP + ranks * ROW + 2, [STYLE, *lines])


def own(rank):
    return [LETTERS[rank]]


def parts(rank):
    return [f"{LETTERS[rank]}{part}" for part in range(RANKS)]


TOTAL = ["a+b+c+d"]
NONE = [""]
EACH = range(RANKS)

PICTURES = {
    "broadcast": ("the source's tensor on every rank", [own(0), *[NONE] * 3], [own(0)] * 4),
    "scatter": ("rank r has tensor r of the source's list", [parts(0), *[NONE] * 3], [[f"a{r}"] for r in EACH]),
    "gather": ("all tensors on the root", [own(r) for r in EACH], [list(LETTERS), *[NONE] * 3]),
    "all_gather": ("all tensors on every rank", [own(r) for r in EACH], [list(LETTERS)] * 4),
    "reduce": ("the sum on the root", [own(r) for r in EACH], [TOTAL, *[own(r) for r in EACH[1:]]]),
    "all_reduce": ("the sum on every rank", [own(r) for r in EACH], [TOTAL] * 4),
    "reduce_scatter": ("part r of the sum on rank r", [parts(r) for r in EACH], [[f"Σ{r}"] for r in EACH]),
    "all_to_all": (
        "tensor r of every rank's list on rank r",
        [parts(r) for r in EACH],
        [[f"{letter}{r}" for letter in LETTERS] for r in EACH],
    ),
    "send": ("one tensor from one rank to another", [own(0), NONE], [own(0), own(0)]),
}


def tree():
    """Who sends to whom in a broadcast to 8 ranks, round by round."""
    ranks, pitch, top, step = 8, 62, 40, 62
    x = [110 + rank * pitch for rank in range(ranks)]
    lines = [text(x[rank], 20, f"rank {rank}", "head") for rank in range(ranks)]
    reach, y = 1, top
    for number in range(1, 4):
        lines.append(text(14, y + step // 2 + 14, f"round {number}", "note", "start"))
        for rank in range(reach):
            begin, end = y + HEIGHT, y + step
            lines.append(f'<path class="way" d="M{x[rank]} {begin}L{x[rank + reach] - 8} {end - 2}"/>')
        reach, y = 2 * reach, y + step
    reach, y = 1, top
    for _ in range(4):
        for rank in range(ranks):
            lines += cell(x[rank] - CELL // 2, y, "a" if rank < reach else "")
        reach, y = 2 * reach, y + step
    return svg("A broadcast as a tree: 8 ranks in 3 rounds", x[-1] + 40, top + 3 * step + HEIGHT + 10, [STYLE, *lines])


def main():
    folder = place("collectives")
    folder.mkdir(parents=True, exist_ok=True)
    for call, (title, before, after) in PICTURES.items():
        write(before_and_after(title, call, before, after), folder / f"{call}.svg")
    write(tree(), folder / "tree.svg")


if __name__ == "__main__":
    main()
