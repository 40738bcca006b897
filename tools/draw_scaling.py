#!/usr/bin/env python3
"""Draws docs/pictures/scaling.svg: the rate of a rank by the number of ranks, and by the size of the hosts.

  tools/draw_scaling.py BUILD [FILE]        BUILD is the folder of a build, build/dev for example

The numbers are those of fsdp-plan scaling --json.
"""

import json
import math
import pathlib
import subprocess
import sys

from drawing import ABSENT, BLUE, BOLD, GREEN, GREY, LINE, ORANGE, PURPLE, SMALL, TEAL, fill, legend, place, style, svg, text, write  # fmt: skip

RUN = ["llama3-8b", "--param-dtype", "bf16", "--batch", "1", "--hardware", "h200", "--json"]
COLOURS = dict(zip("abcdef", [BLUE, ORANGE, PURPLE, TEAL, GREEN, GREY]))  # a line's class: its colour
TOP, HEIGHT, HIGHEST = 58, 260, 500  # of the panels in px, and their highest TFLOP/s
STEPS = range(0, HIGHEST + 1, 100)
# A panel: its left end, its width, the ranks at its ends and on its axis.
BY_RANKS = (52, 420, 8, 100_000, [8, 64, 512, 4096, 32_768, 100_000])
BY_HOSTS = (532, 250, 1, 256, [1, 4, 16, 64, 256])
WIDTH, BOTTOM = 800, TOP + HEIGHT

STYLE = style(
    {"head": BOLD, "small": SMALL, "axis": LINE, "grid": f"fill: none; stroke: {GREY}; stroke-opacity: .25", "mark": ABSENT}
    | {name: fill(colour) for name, colour in COLOURS.items()}
    | {f"line-{name}": f"fill: none; stroke: {colour}; stroke-width: 2" for name, colour in COLOURS.items()}
    | {"large": "stroke-dasharray: 2 4"}
)  # fmt: skip


def run(build):
    program = pathlib.Path(build) / "apps/fsdp-plan"
    return json.loads(subprocess.run([program, "scaling", *RUN], stdout=subprocess.PIPE, check=True).stdout)


def merged(curves):
    """The curves, in lists of those that have the same rates."""
    by_rates = {}
    for curve in curves:
        by_rates.setdefault(tuple(round(point["tflops"], 3) for point in curve["points"]), []).append(curve)
    return list(by_rates.values())


def x_of(panel, ranks):
    left, width, first, last, _ = panel
    return left + width * math.log(ranks / first) / math.log(last / first)


def y_of(rate):
    return BOTTOM - HEIGHT * rate / HIGHEST


def axes(panel, name, note, unit):
    left, width, _, _, ticks = panel
    lines = [text(left, 18, name, "head", "start"), text(left, 35, note, "small", "start")]
    for rate in STEPS:
        lines += [f'<path class="grid" d="M{left} {y_of(rate):.1f}h{width}"/>',
                  text(left - 8, y_of(rate) + 4, str(rate), "small", "end")]  # fmt: skip
    lines.append(f'<path class="axis" d="M{left} {BOTTOM}h{width}"/>')
    for ranks in ticks:
        x = round(x_of(panel, ranks), 1)
        lines += [f'<path class="axis" d="M{x:g} {BOTTOM}v5"/>', text(x, BOTTOM + 18, f"{ranks:,}", "small")]
    return [*lines, text(left + width / 2, BOTTOM + 36, unit, "small")]


def segments(panel, kind, points, axis):
    """A curve in pieces: those that do not fit are dashed."""
    lines = []
    for first, second in zip(points, points[1:]):
        dashed = "" if first["fits"] and second["fits"] else " large"
        ends = [f"{x_of(panel, point[axis]):.1f} {y_of(point['tflops']):.1f}" for point in (first, second)]
        lines.append(f'<path class="line-{kind}{dashed}" d="M{ends[0]}L{ends[1]}"/>')
    return lines


def mark_bends(kind, curve):
    lines = []
    rates = {point["ranks"]: point["tflops"] for point in curve["points"]}
    for bend in curve["bends"]:
        x, y = x_of(BY_RANKS, bend["ranks"]), y_of(rates[bend["ranks"]])
        if bend["part"] == "waits_for_collectives":
            lines.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>')
    return lines


def mark_failures(curves):
    """One line: failures do not depend on the strategy."""
    ranks = {bend["ranks"] for curve in curves for bend in curve["bends"] if bend["part"].startswith("failures")}
    lines = []
    for x in (round(x_of(BY_RANKS, at), 1) for at in sorted(ranks)):
        lines += [f'<path class="mark" d="M{x:g} {TOP}V{BOTTOM}"/>', text(x - 6, TOP + 10, "failures", "small", "end")]
    return lines


def picture(scaling):
    noticed = f"{100 * scaling['noticed']:.0f} %"
    lines = [STYLE, *axes(BY_RANKS, "TFLOP/s per rank", f"{scaling['model']}, {scaling['hardware']}, hosts of 8 ranks",
                          "ranks"),
             *axes(BY_HOSTS, f"{scaling['devices']:,} ranks, large or small hosts", "", "ranks on each host"),
             *mark_failures(scaling["by_ranks"])]  # fmt: skip
    named = []
    for kind, curves in zip(COLOURS, merged(scaling["by_ranks"])):
        names = {curve["strategy"] for curve in curves}
        named.append((kind, ", ".join(curve["strategy"] for curve in curves)))
        of_hosts = next(curve for curve in scaling["by_hosts"] if curve["strategy"] in names)
        lines += segments(BY_RANKS, kind, curves[0]["points"], "ranks") + mark_bends(kind, curves[0])
        lines += segments(BY_HOSTS, kind, of_hosts["points"], "ranks_per_host")
    lines += legend(12, BOTTOM + 54, named)
    key = (f"Dot: waits for collectives pass {noticed} of the time; at the line failures and checkpoints "
           "do. Dotted curves do not fit.")  # fmt: skip
    lines.append(text(12, BOTTOM + 92, key, "small", "start"))
    title = "TFLOP/s per rank by strategy, from 8 to 100,000 ranks and from small to large hosts"
    return svg(title, WIDTH, BOTTOM + 104, lines)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    write(picture(run(sys.argv[1])), place("scaling.svg", 2))


if __name__ == "__main__":
    main()
