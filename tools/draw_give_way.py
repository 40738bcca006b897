#!/usr/bin/env python3
"""Draws docs/pictures/give_way.svg: the backward of a layer beside many small kernels, and beside one reduction.

  tools/draw_give_way.py [FILE]

The two lengths are those of the traces that YaFSDP's authors published. The number of kernels is a sketch.
"""

from drawing import BLUE, GREEN, ORANGE, axis, box, colours, legend, named_box, place, svg, text, write

# Milliseconds of a layer's backward, by PyTorch's FSDP and by YaFSDP.
MANY, ONE = 74, 52
COPIES = 22
LEFT, SCALE, BAR, HEAD, GAP = 116, 6.4, 24, 36, 18  # SCALE: px of a millisecond
END = 80
WIDTH = LEFT + END * SCALE + 24
STYLE = colours({"compute": BLUE, "copy": ORANGE, "reduce": GREEN})
LEGEND = [("copy", "a small copy"), ("reduce", "the message"), ("compute", "a layer's kernels")]


def span(begin, end, y, kind, words):
    return named_box(LEFT + begin * SCALE + 0.5, y, (end - begin) * SCALE - 1, BAR - 4, kind, words)


def stream(name, y):
    return [text(4, y + 14, name, "small", "start"), box(LEFT, y, END * SCALE, BAR - 4, "idle", 0)]


def chart(top, name, note, milliseconds, communication):
    """`communication`: begin, end, class and words of each kernel."""
    y = top + HEAD
    lines = [text(4, top + 14, name, "head", "start"), text(4, top + 29, note, "small", "start")]
    lines += stream("computation", y) + stream("communication", y + BAR)
    lines += span(0, milliseconds, y, "compute", f"backward of a layer: {milliseconds} ms")
    for begin, end, kind, words in communication:
        lines += span(begin, end, y + BAR, kind, words)
    return lines, y + 2 * BAR + GAP


def many():
    """Copies into the message, then the message, until the backward's end."""
    pitch, sent = 1.75, COPIES * 1.75 + 1
    copies = [(number * pitch, number * pitch + 1.3, "copy", "") for number in range(COPIES)]
    return [*copies, (sent, MANY, "reduce", "reduce-scatter")]


def main():
    first, y = chart(0, "many small kernels: both streams give way", "PyTorch's FSDP copies gradients one by one into "
                     "the message of the reduce-scatter", MANY, many())  # fmt: skip
    second, y = chart(y, "one reduction: nothing in its way", "YaFSDP has the gradients in one flat buffer, and so has "
                      "libfsdp", ONE, [(2, 40, "reduce", "reduce-scatter")])  # fmt: skip
    ticks = axis(y - 4, [(LEFT + time * SCALE, f"{time} ms") for time in range(0, END + 1, 20)])
    lines = [STYLE, *first, *second, *ticks, *legend(LEFT, y + 26, LEGEND)]
    write(svg("The backward of a layer beside its communication", f"{WIDTH:g}", y + 46, lines),
          place("give_way.svg"))  # fmt: skip


if __name__ == "__main__":
    main()
