"""The results as one table, and as JSON."""

import dataclasses
import json

COLUMNS = ("part", "result", "s", "figures")


def table(results):
    rows = [COLUMNS]
    for result in results:
        rows.append((result.name, result.state, f"{result.seconds:.0f}", figures_of(result)))
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    ends = [f"\n{one.name}, {one.state}:\n{one.output.strip()}" for one in results if one.output]
    return "\n".join(lines + ends)


def figures_of(result):
    return ", ".join(f"{name} {shown(value)}" for name, value in result.figures.items())


def shown(value):
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def as_json(results, machine):
    return json.dumps({"machine": machine, "parts": [dataclasses.asdict(one) for one in results]}, indent=1)
