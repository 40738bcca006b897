#!/usr/bin/env python3
"""Draws docs/pictures/unit.svg: a unit's parameters one after the other, cut into a shard for each of four ranks.

  tools/draw_unit.py [FILE]

The arithmetic is that of src/layout/unit_layout.h.
"""

from drawing import BOLD, FOUR, GREY, IDLE, OUTLINE, SMALL, box, letters, named_box, place, style, svg, text, write

ALIGNMENT, RANKS = 64, 4  # elements; kAlignmentNumel
# Name and number of elements, in the order of the module. Colours by letter.
PARAMETERS = [("fc1.weight", 300), ("fc1.bias", 20), ("fc2.weight", 400), ("fc2.bias", 50)]
LEFT, SCALE, BAR, ROW = 76, 0.55, 26, 34  # SCALE: px of an element
WIDE = 1.1  # of an element in a rank's shard
STYLE = style(
    {"head": BOLD, "frame": OUTLINE, "padding": IDLE, **FOUR, "on": letters(11), "small": SMALL,
     "cut": f"stroke: {GREY}; stroke-width: 1.5; stroke-dasharray: 4 3"}
)  # fmt: skip


def aligned(numel):
    return -(-numel // ALIGNMENT) * ALIGNMENT


def offsets():
    begin, places = 0, []
    for _, numel in PARAMETERS:
        places.append(begin)
        begin += aligned(numel)
    return places, begin


PLACES, USED = offsets()
SHARD = aligned(-(-USED // RANKS))


def parameter(number, x, y, scale, begin=0, end=None):
    """The elements from `begin` to `end`, at x."""
    letter, numel = "abcd"[number], (PARAMETERS[number][1] if end is None else end) - begin
    return named_box(x, y, numel * scale, BAR, letter, letter)


def head(y, name, note):
    return [text(4, y, name, "head", "start"), text(4, y + 16, note, "small", "start")]


def apart(y):
    """Each parameter by itself, with its name."""
    lines, x = [], 4
    for number, (name, numel) in enumerate(PARAMETERS):
        lines += parameter(number, x, y, SCALE)
        lines.append(text(x, y + BAR + 14, f"{'abcd'[number]}: {name}, {numel}", "small", "start"))
        x += max(numel * SCALE, 104) + 16
    return lines


def room(x, y, width):
    """All of it padding, until parameters are drawn over it."""
    return [box(x, y, width, BAR, "padding", 0), box(x, y, width, BAR, "frame", 0)]


def flat(y):
    lines = room(LEFT, y, SHARD * RANKS * SCALE)
    for number, begin in enumerate(PLACES):
        lines += parameter(number, LEFT + begin * SCALE, y, SCALE)
    for rank in range(RANKS + 1):
        x = LEFT + rank * SHARD * SCALE
        lines.append(f'<path class="cut" d="M{x:g} {y - 8}V{y + BAR + 8}"/>')
        lines.append(text(x, y + BAR + 22, str(rank * SHARD), "small"))
        if rank < RANKS:
            lines.append(text(x + SHARD * SCALE / 2, y + BAR + 22, f"rank {rank}", ""))
    return lines


def pieces(rank):
    """Of each parameter in the rank's shard: its number, its place in the shard, and the elements from and to."""
    found = []
    for number, (begin, (_, numel)) in enumerate(zip(PLACES, PARAMETERS)):
        first, last = max(begin, rank * SHARD), min(begin + numel, (rank + 1) * SHARD)
        if first < last:
            found.append((number, first - rank * SHARD, first - begin, last - begin))
    return found


def shard(rank, y):
    lines = [text(4, y + 17, f"rank {rank}", "", "start"), *room(LEFT, y, SHARD * WIDE)]
    for number, at, begin, end in pieces(rank):
        lines += parameter(number, LEFT + at * WIDE, y, WIDE, begin, end)
    words = ", ".join(f"{'abcd'[number]}[{begin}:{end}]" for number, _, begin, end in pieces(rank))
    return lines + [text(LEFT + SHARD * WIDE + 14, y + 17, words, "small", "start")]


def main():
    lines = [STYLE, *head(14, "parameters", "in the order of the module, with their numbers of elements"), *apart(42)]
    lines += head(108, "the unit", f"each parameter begins at a multiple of {ALIGNMENT}; grey is padding; "
                                   f"{RANKS} equal shards of {SHARD}")  # fmt: skip
    lines += flat(142)
    lines += head(218, "pieces", "the part of each parameter in a rank's shard, elements from and to")
    for rank in range(RANKS):
        lines += shard(rank, 246 + rank * ROW)
    width = LEFT + SHARD * RANKS * SCALE + 24
    title = "A unit over four ranks: parameters, padding, shards, pieces"
    write(svg(title, f"{width:g}", 246 + RANKS * ROW, lines), place("unit.svg"))


if __name__ == "__main__":
    main()
