#!/usr/bin/env python3
"""Draws docs/pictures/divisions.svg: four ways to divide a model of four layers between two ranks or devices.

  tools/draw_divisions.py [FILE]
"""

from drawing import ABSENT, BOLD, FOUR, OUTLINE, SMALL, arrow_head, letters, place, style, svg, text, way, write

TITLE = "Four ways to divide a model of four layers: sharding, a pipeline, tensor parallelism, layers placed by hand"
LAYERS = "abcd"
PANEL, GAP = 210, 36  # the width of a panel, and the room to the next one
BOX, BOX_GAP = 84, 42  # of a rank
BAR, ROW, TOP = 24, 32, 88  # a layer's height, the distance to the next one, where the first one begins
HEIGHT = 276

STYLE = style(
    {"head": BOLD, "box": OUTLINE, "absent": ABSENT, **FOUR, "on": letters(12), "small": SMALL,
     "way": way("end"), "both": "marker-start: url(#end)"}
) + "\n" + arrow_head("end", "auto-start-reverse")  # fmt: skip

WHOLE, LEFT, RIGHT = (0, 1), (0, 0.5), (0.5, 1)  # of a layer, from and to
SENT_BY_ALL = ["a", "b", "c", "d"]

# For each panel: its name, the owner of the boxes, what each box has of each layer, what the two boxes work on, the
# layers beside which something is sent, whether in both directions, and what it is.
PANELS = [
    ("sharding", "rank", [dict.fromkeys(LAYERS, LEFT), dict.fromkeys(LAYERS, RIGHT)], ["batch 1", "batch 2"],
     SENT_BY_ALL, True, ["parts of parameters before a layer", "runs, and of gradients after it"]),
    ("pipeline", "rank", [dict.fromkeys("ab", WHOLE), dict.fromkeys("cd", WHOLE)], ["micro-batch 2", "micro-batch 1"],
     ["b"], True, ["activations, and their gradients,", "between two stages"]),
    ("tensor parallelism", "rank", [dict.fromkeys(LAYERS, LEFT), dict.fromkeys(LAYERS, RIGHT)], ["batch 1", "batch 1"],
     SENT_BY_ALL, True, ["sums of activations inside", "of each layer"]),
    ("layers by hand", "device", [dict.fromkeys("ab", WHOLE), dict.fromkeys("cd", WHOLE)], ["batch 1", "waits"],
     ["b"], False, ["activations; one device works", "at a time, in one process"]),
]  # fmt: skip


def layer(x, y, name, part, gathers):
    """A layer that the box has a part of. `gathers`: the rest comes before the layer runs."""
    begin, end = (x + BOX * edge for edge in part)
    lines = [f'<rect class="{name}" x="{begin:g}" y="{y}" width="{end - begin:g}" height="{BAR}" rx="3"/>']
    if gathers:
        rest = x if part == RIGHT else x + BOX / 2
        lines.append(f'<rect class="absent" x="{rest:g}" y="{y}" width="{BOX / 2:g}" height="{BAR}" rx="3"/>')
    return lines + [text((begin + end) / 2, y + BAR / 2 + 4, name, "on")]


def panel(left, name, owner, boxes, works_on, sent_at, both, sent):
    lines = [text(left + PANEL / 2, 18, name, "head")]
    for number, box in enumerate(boxes):
        x = left + number * (BOX + BOX_GAP)
        lines += [text(x + BOX / 2, 48, f"{owner} {number}"), text(x + BOX / 2, 66, works_on[number], "small")]
        lines.append(
            f'<rect class="box" x="{x - 6}" y="{TOP - 10}" width="{BOX + 12}" height="{4 * ROW + 10}" rx="8"/>'
        )
        for row, of_layer in enumerate(LAYERS):
            if of_layer in box:
                lines += layer(x, TOP + row * ROW, of_layer, box[of_layer], name == "sharding")
    for of_layer in sent_at:
        y = TOP + LAYERS.index(of_layer) * ROW + BAR / 2
        kind = "way both" if both else "way"
        lines.append(f'<path class="{kind}" d="M{left + BOX + 10} {y:g}H{left + BOX + BOX_GAP - 10}"/>')
    return lines + [text(left + PANEL / 2, 246 + 16 * row, words, "small") for row, words in enumerate(sent)]


def picture():
    width = len(PANELS) * (PANEL + GAP)
    lines = [STYLE]
    for number, of_panel in enumerate(PANELS):
        lines += panel(GAP // 2 + number * (PANEL + GAP), *of_panel)
    return svg(TITLE, width, HEIGHT, lines)


def main():
    file = place("divisions.svg")
    write(picture(), file)
    print(f"drew {file}")


if __name__ == "__main__":
    main()
