#!/usr/bin/env python3
"""The colours of the report's parts can be told apart, in the light and in the dark, by colour-blind readers too.

Colours are compared by their distance in OKLab (Ottosson, 2020), as they are and as people without one kind of cone see
them (Machado, Oliveira and Fernandes, 2009). A line in the colour of the page is between two areas, in any case.
"""

import itertools
import math
import pathlib
import re
import sys

COLOURS = pathlib.Path(__file__).resolve().parents[3] / "apps/report/assets/colours.css"
PARTS = 10  # nine, and the rest
LEAST, LEAST_OF_NEIGHBOURS = 0.08, 0.12

SIGHTS = {
    "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_CONES = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
TO_LAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def linear(colour):
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]


def seen(colour, sight):
    light = [min(max(share, 0), 1) for share in times(SIGHTS[sight], linear(colour))]
    return times(TO_LAB, [cone ** (1 / 3) for cone in times(TO_CONES, light)])


def problems(palette):
    for (one, first), (other, second) in itertools.combinations(enumerate(palette), 2):
        least = LEAST_OF_NEIGHBOURS if other == one + 1 and other < PARTS - 1 else LEAST
        for sight in SIGHTS:
            distance = math.dist(seen(first, sight), seen(second, sight))
            if distance < least:
                yield f"part-{one} {first} and part-{other} {second}, {sight}: {distance:.3f}, at least {least}"


def main():
    found = re.findall(r"--part-(\d): (#[0-9a-f]{6});", COLOURS.read_text())
    palettes = [[colour for _, colour in found[i : i + PARTS]] for i in range(0, len(found), PARTS)]
    if [int(number) for number, _ in found] != 2 * list(range(PARTS)):
        sys.exit(f"{COLOURS}: expected part-0 to part-{PARTS - 1}, in the light and in the dark")
    failed = [problem for palette in palettes for problem in problems(palette)]
    sys.exit("\n".join(failed) if failed else 0)


if __name__ == "__main__":
    main()
