#!/usr/bin/env python3
"""Draws docs/pictures/zero.svg: the memory of a rank with nothing divided, and by the three stages of ZeRO.

  tools/draw_zero.py BUILD [FILE]      BUILD: a build with tests, such as build/dev

The upper half is the arithmetic of ZeRO's authors (arXiv:1910.02054), the lower half that of the library.
"""

import pathlib
import subprocess
import sys

from drawing import BLUE, GREEN, ORANGE, PURPLE, TEAL, box, colours, legend, place, svg, text, write

PARAMETERS, RANKS, UNITS = 7_500_000_000, 64, 36
PARTS = ["parameters", "gradients", "optimizer", "whole", "buffers"]  # classes, in the order that bars have
LEGEND = [[("parameters", "parameters"), ("gradients", "gradients"), ("optimizer", "optimizer")],
          [("whole", "full units"), ("buffers", "gradient buffers")]]  # fmt: skip
STYLE = colours(dict(zip(PARTS, (BLUE, ORANGE, GREEN, TEAL, PURPLE))))
LEFT, SCALE, BAR, ROW, WIDTH = 132, 2.5, 22, 36, 640  # SCALE: px of a GB

# For each stage: its formula, and bytes of parameters, gradients and the optimizer's state per model parameter.
N = RANKS
STAGES = [
    ("no sharding", "16 P", [2, 2, 12]),
    ("ZeRO stage 1", "4 P + 12 P / N", [2, 2, 12 / N]),
    ("ZeRO stage 2", "2 P + 14 P / N", [2, 2 / N, 12 / N]),
    ("ZeRO stage 3", "16 P / N", [2 / N, 2 / N, 12 / N]),
]
ALIKE = {"NoShard": "as DDP", "ShardOptimizer": "as stage 1", "ShardGradOp": "as stage 2", "FullShard": "as stage 3"}


def published():
    return [(name, formula, [bytes_each * PARAMETERS / 1e9 for bytes_each in parts]) for name, formula, parts in STAGES]


def own(build):
    command = [build / "tests/print_state_memory", PARAMETERS, UNITS, RANKS]
    lines = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout.splitlines()
    rows = []
    for name, *parts in map(str.split, lines):
        rows.append((name, ALIKE[name], [int(part) / 1e9 for part in parts]))
    return rows


def bar(y, name, note, parts):
    lines = [text(4, y + 10, name, "", "start"), text(4, y + 24, note, "small", "start")]
    x = LEFT
    for kind, gigabytes in zip(PARTS, parts):
        if gigabytes > 0:
            lines.append(box(x, y, gigabytes * SCALE, BAR, kind, 0))
        x += gigabytes * SCALE
    return lines + [text(x + 8, y + 16, f"{sum(parts):.3g} GB", "head", "start")]


def block(top, head, note, rows):
    lines = [text(4, top + 12, head, "head", "start"), text(4, top + 29, note, "small", "start")]
    for number, one in enumerate(rows):
        lines += bar(top + 42 + number * ROW, *one)
    return lines, top + 42 + len(rows) * ROW


def main():
    first, y = block(4, "ZeRO, by its authors: P = 7.5 billion parameters on N = 64 ranks",
                     "for each parameter 2 bytes, 2 of its gradient, 12 of the optimizer", published())  # fmt: skip
    second, y = block(y + 14, "libfsdp, with all that it holds for the same model",
                      f"{UNITS} equal units, bf16 parameters, fp32 shards, gradients and moments",
                      own(pathlib.Path(sys.argv[1])))  # fmt: skip
    lines = [STYLE, *first, *second]
    for row, entries in enumerate(LEGEND):
        lines += legend(4, y + 6 + row * 22, entries)
    write(svg("Memory of a rank: 7.5 billion parameters on 64 GPUs", WIDTH, y + 50, lines), place("zero.svg", 2))


if __name__ == "__main__":
    main()
