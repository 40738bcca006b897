#!/usr/bin/env python3
"""Draws docs/pictures/schedules.svg: a step of each pipeline schedule in time, from the library's own schedules.

  tools/draw_schedules.py BUILD [FILE]      BUILD: a build with tests, such as build/dev
"""

import pathlib
import re
import subprocess
import sys

from drawing import BLUE, BOLD, GREEN, IDLE, ORANGE, TEAL, fill, legend, letters, place, style, svg, write

RANKS, MICRO_BATCHES = 4, 8
# Name, stages per rank, and a line about it.
SCHEDULES = [
    ("OneAtATime", 1, "one rank works at a time"),
    ("AllForwardAllBackward", 1, "holds the activations of all micro-batches"),
    ("OneForwardOneBackward", 1, "holds those of 4 at most"),
    ("Interleaved", 2, "2 stages per rank: less idle time, more messages"),
    ("ZeroBubble", 1, "weight gradients fill the idle time"),
]
WIDTH, ROW, LEFT, HEAD, GAP = 900, 22, 60, 22, 16

STYLE = style(
    {"head": BOLD, "forward": fill(BLUE), "backward": fill(GREEN), "input": fill(TEAL), "weight": fill(ORANGE),
     "later": "fill-opacity: .68", "idle": IDLE, "on": letters(10)}
)  # fmt: skip
KINDS = {"F": "forward", "B": "backward", "I": "input", "W": "weight"}
LEGEND = [("forward", "forward"), ("backward", "backward"), ("input", "gradient of the input"),
          ("weight", "gradients of the weights"), ("idle", "idle")]  # fmt: skip


def passes_of(build, name, stages):
    command = [build / "tests/print_schedule", name, RANKS, stages, MICRO_BATCHES]
    lines = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout.splitlines()
    idle = float(lines.pop().split()[1])
    passes = []
    for line in lines:
        rank, action, start, end = line.split()
        stage, kind, micro_batch = re.fullmatch(r"(\d+)([FBIW])(\d+)", action).groups()
        passes.append((int(rank), int(stage), kind, micro_batch, float(start), float(end)))
    return passes, idle


def chart(passes, top, scale):
    end = max(one[5] for one in passes)
    lines = []
    for rank in range(RANKS):
        y = top + rank * ROW
        lines.append(f'<text x="0" y="{y + 15}">rank {rank}</text>')
        lines.append(f'<rect class="idle" x="{LEFT}" y="{y}" width="{end * scale:.1f}" height="{ROW - 3}"/>')
    for rank, stage, kind, micro_batch, start, stop in passes:
        x, y, width = LEFT + start * scale, top + rank * ROW, (stop - start) * scale
        shade = " later" if stage >= RANKS else ""
        lines.append(
            f'<rect class="{KINDS[kind]}{shade}" x="{x + 0.5:.1f}" y="{y}" width="{width - 1:.1f}" height="{ROW - 3}" rx="2"/>'
        )
        lines.append(f'<text class="on" x="{x + width / 2:.1f}" y="{y + 13}" text-anchor="middle">{micro_batch}</text>')
    return lines


def main():
    build = pathlib.Path(sys.argv[1])
    drawn = [(name, stages, words, *passes_of(build, name, stages)) for name, stages, words in SCHEDULES]
    # One at a time takes so long that its end is left out.
    shown = max(max(one[5] for one in passes) / stages for name, stages, _, passes, _ in drawn if name != "OneAtATime")
    y, lines = 0, []
    for name, stages, words, passes, idle in drawn:
        scale = (WIDTH - LEFT) / shown / stages
        y += HEAD
        lines.append(f'<text class="head" x="0" y="{y - 7}">{name}</text>')
        lines.append(f'<text x="200" y="{y - 7}">idle for {100 * idle:.0f} % of the step; {words}</text>')
        lines += chart([one for one in passes if one[5] <= shown * stages + 1e-9], y, scale)
        y += RANKS * ROW + GAP
    lines += legend(LEFT, y, LEGEND)
    title = f"A step of each pipeline schedule: {RANKS} ranks, {MICRO_BATCHES} micro-batches"
    write(svg(title, WIDTH, y + 20, [STYLE, *lines]), place("schedules.svg", 2))


if __name__ == "__main__":
    main()
