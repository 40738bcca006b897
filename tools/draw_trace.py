#!/usr/bin/env python3
"""Draws what fsdp::Trace wrote as a picture: tools/draw_trace.py step.rank*.json picture.svg

Each rank has a row for each kind of computation and communication; a unit has the same colour in all of them.
"""

import argparse
import json
import re

import matplotlib
from matplotlib import pyplot

LABEL_SHARE = 0.035  # of the whole time, that a span needs to carry its name


def load(paths):
    """All events, and the titles of the ranks and of their rows."""
    events = [event for path in paths for event in json.load(open(path))]
    named = [event for event in events if event["ph"] == "M" and "name" in event["args"]]
    ranks = {event["pid"]: event["args"]["name"] for event in named if event["name"] == "process_name"}
    rows = {(event["pid"], event["tid"]): event["args"]["name"] for event in named if event["name"] == "thread_name"}
    return [event for event in events if event["ph"] == "X"], ranks, rows


def label_of(unit):
    """The last two parts of a name with dots."""
    return ".".join(unit.split(".")[-2:])


def unit_of(name):
    """What follows the phase; the kinds of waits that concern no unit are their own."""
    return re.sub(r"^(forward|backward|gather|reduce) ", "", name)


def colours(spans):
    units = sorted({unit_of(span["name"]) for span in spans})
    palette = pyplot.get_cmap("tab20").colors
    return {unit: palette[i % len(palette)] for i, unit in enumerate(units)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="+", help="what the ranks of one host wrote")
    parser.add_argument("picture", help="the file to draw, .svg or .png")
    arguments = parser.parse_args()

    spans, ranks, rows = load(arguments.traces)
    start = min(span["ts"] for span in spans)
    length = max(span["ts"] + span["dur"] for span in spans) - start
    colour_of = colours(spans)
    place = {row: i for i, row in enumerate(sorted(rows))}

    matplotlib.rcParams.update({"svg.hashsalt": "fsdp", "svg.fonttype": "none"})
    figure, axis = pyplot.subplots(figsize=(14, 1 + 0.4 * len(rows)))
    for span in spans:
        row, unit = place[span["pid"], span["tid"]], unit_of(span["name"])
        left, width = (span["ts"] - start) / 1000, span["dur"] / 1000
        axis.barh(row, width, left=left, height=0.8, color=colour_of[unit], edgecolor="white", linewidth=0.3)
        if span["dur"] > LABEL_SHARE * length:
            axis.text(left + width / 2, row, label_of(unit), ha="center", va="center", fontsize=6, clip_on=True)
    axis.set_yticks(list(place.values()), [f"{ranks[pid]}: {rows[pid, tid]}" for pid, tid in place])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlabel("milliseconds")
    axis.set_xlim(0, length / 1000)
    figure.tight_layout()
    figure.savefig(arguments.picture, metadata={"Date": None})


if __name__ == "__main__":
    main()
