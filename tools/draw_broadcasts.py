#!/usr/bin/env python3
"""Draws docs/pictures/broadcasts.svg: 5 MB from one rank to seven over links of 1 MB/s, in three ways, in time.

  tools/draw_broadcasts.py [FILE]

The tree is that of src/collectives/tree_broadcast.cpp, where a rank has one send at a time.
"""

from drawing import BLUE, ORANGE, PURPLE, axis, box, colours, named_box, place, svg, text, write

RANKS, SECONDS = 8, 5  # SECONDS: one tensor on a link
LEFT, SCALE, BAR, HEAD, GAP = 56, 16, 18, 28, 14  # SCALE: px of a second
END = (RANKS - 1) * SECONDS
WIDTH = LEFT + END * SCALE + 16
STYLE = colours({"depth0": BLUE, "depth1": PURPLE, "depth2": ORANGE})


def children(rank):
    """In a tree, those that the rank sends to, in order: the first has most ranks below it."""
    reach = 1
    while reach <= rank:
        reach *= 2
    below = []
    while rank + reach < RANKS:
        below.append(rank + reach)
        reach *= 2
    return below


def one_by_one():
    return {rank: (0, (rank - 1) * SECONDS, rank * SECONDS) for rank in range(1, RANKS)}


def tree(at_once):
    """By rank: its sender, and when its message begins and ends. `at_once`: a rank's sends share its link."""
    messages, arrival = {}, {0: 0}
    for rank in range(RANKS):  # senders have lower numbers
        below = children(rank)
        for number, child in enumerate(below):
            begin = arrival[rank] + (0 if at_once else number * SECONDS)
            arrival[child] = begin + SECONDS * (len(below) if at_once else 1)
            messages[child] = (rank, begin, arrival[child])
    return messages


def depth(rank, messages):
    """The number of ranks between this one and rank 0."""
    sender = messages[rank][0]
    return 0 if sender == 0 else 1 + depth(sender, messages)


def chart(top, name, note, messages):
    end = max(last for _, _, last in messages.values())
    lines = [text(4, top + 16, f"{name}: {end} s", "head", "start"), text(WIDTH - 16, top + 16, note, "small", "end")]
    for rank, (sender, begin, last) in sorted(messages.items()):
        y = top + HEAD + (rank - 1) * BAR
        lines += [text(4, y + 12, f"rank {rank}", "small", "start"), box(LEFT, y, end * SCALE, BAR - 3, "idle", 0)]
        kind, width = f"depth{depth(rank, messages)}", (last - begin) * SCALE - 1
        lines += named_box(LEFT + begin * SCALE + 0.5, y, width, BAR - 3, kind, f"from rank {sender}")
    return lines, top + HEAD + (RANKS - 1) * BAR + GAP


def main():
    lines, y = [STYLE], 0
    for name, note, messages in [
        ("one by one", "rank 0 sends everything", one_by_one()),
        ("a tree, one send at a time", "broadcast_: each rank that has the tensor sends it on", tree(False)),
        ("a tree, all sends at once", "the sends of a rank share its link", tree(True)),
    ]:
        more, y = chart(y, name, note, messages)
        lines += more
    lines += axis(y - 4, [(LEFT + second * SCALE, f"{second} s") for second in range(0, END + 1, SECONDS)])
    write(svg("5 MB to seven ranks over links of 1 MB/s", WIDTH, y + 20, lines), place("broadcasts.svg"))


if __name__ == "__main__":
    main()
