"""The shared parts of tools/draw_*.py: an SVG's frame, colours and texts.

Letters are grey, so that they can be read on white and on black. White letters lie on coloured boxes alone.
"""

import html
import pathlib
import sys

PICTURES = pathlib.Path(__file__).resolve().parents[1] / "docs/pictures"
BLUE, ORANGE, PURPLE, TEAL, GREEN, GREY = "#3b82c4", "#d98032", "#8d6bb8", "#27888a", "#4a9c5d", "#808080"

BOLD = "font-weight: 600"
OUTLINE = f"fill: none; stroke: {GREY}; stroke-opacity: .45"
ABSENT = f"fill: none; stroke: {GREY}; stroke-opacity: .6; stroke-dasharray: 3 3"
IDLE = f"fill: {GREY}; fill-opacity: .12"
SMALL = "font-size: 11px"
LINE = f"fill: none; stroke: {GREY}; stroke-opacity: .8"


def fill(colour):
    return f"fill: {colour}"


def letters(size, colour="#ffffff"):
    return f"fill: {colour}; font-size: {size}px"


def way(marker):
    """A line that ends in the arrow head `marker`."""
    return f"fill: none; stroke: {GREY}; stroke-width: 1.5; marker-end: url(#{marker})"


# By rank, unit or parameter: its class and colour.
FOUR = {"a": fill(BLUE), "b": fill(ORANGE), "c": fill(PURPLE), "d": fill(TEAL)}


def style(rules):
    """`rules`: declarations by class."""
    lines = [f"  text {{ fill: {GREY} }}", *(f"  .{name} {{ {rule} }}" for name, rule in rules.items())]
    return "\n".join(["<style>", *lines, "</style>"])


def colours(by_class):
    """The style of charts: boxes in these colours, with words on them and beside them."""
    rules = {"head": BOLD, "small": SMALL, "axis": LINE, "idle": IDLE, "on": letters(11)}
    return style(rules | {name: fill(colour) for name, colour in by_class.items()})


def arrow_head(name="arrow", orient="auto"):
    """The definition of the head of arrows for `way(name)`. `orient`: as of an SVG's marker."""
    return (
        f'<defs><marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="{orient}"><path d="M0 0 8 4 0 8z" fill="{GREY}"/></marker></defs>'
    )


def text(x, y, words, kind="", anchor="middle"):
    words = html.escape(words, quote=False)
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{words}</text>'


def box(x, y, width, height, kind, radius=3):
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}"/>'


def named_box(x, y, width, height, kind, words):
    """A coloured box with words in its middle."""
    return [box(x, y, width, height, kind), text(x + width / 2, y + height / 2 + 4, words, "on")]


def legend(x, y, entries):
    """`entries`: class and words of each, side by side."""
    lines = []
    for kind, words in entries:
        lines += [box(x, y, 14, 14, kind, 2), text(x + 20, y + 12, words, "", "start")]
        x += 40 + 7 * len(words)
    return lines


def axis(y, ticks):
    """A time axis. `ticks`: the place and the words of each."""
    (first, _), (last, _) = ticks[0], ticks[-1]
    lines = [f'<path class="axis" d="M{first:g} {y:g}H{last:g}"/>']
    for x, words in ticks:
        lines += [f'<path class="axis" d="M{x:g} {y:g}v5"/>', text(x, y + 18, words, "small")]
    return lines


def svg(title, width, height, lines):
    """`lines`: the style first, then elements. The title is read aloud in place of the picture."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="13" role="img" aria-labelledby="title">'
    )
    return "\n".join([head, f'<title id="title">{title}</title>', *lines, "</svg>"]) + "\n"


def place(name, argument=1):
    """The file or folder to draw to: the command's argument of this number, or `name` under docs/pictures."""
    return pathlib.Path(sys.argv[argument]) if len(sys.argv) > argument else PICTURES / name


def write(picture, file):
    file.write_text(picture, encoding="utf-8")
