"""The results as files: performance.json, performance.md and the plots. A part that was not measured now stays as it
was."""

import json

from compare import collectives, growth, memory, plots, steps, wires

PARTS = {
    "collectives": (collectives, "Collectives"),
    "steps": (steps, "A training step"),
    "memory": (memory, "Peak memory"),
    "growth": (growth, "Growth"),
    "wires": (wires, "Slow wires"),
}

HEAD = """# Performance

<!-- written by bench/run: do not edit; bench/README.md says how it is measured and how to read it -->

This library beside PyTorch on the same machine, with the same model, weights, tokens and threads, in turns of a few
steps. All figures are medians; a ratio is a ratio of medians, and below 1 means faster. *no communication* is the
limit: the same forward and backward pass of the plain model, and AdamW on a rank's share of the parameters. That is
what is left of a step when communication costs nothing.
"""


def load(folder):
    file = folder / "performance.json"
    return json.loads(file.read_text()) if file.exists() else {}


def part_lines(folder, name, found):
    module, title = PARTS[name]
    lines = ["", f"## {title}", "", *module.render(found["result"])]
    if picture := plots.draw(folder, name, found["result"]):
        lines += ["", f"![{title}](pictures/{picture})"]
    machine = "; ".join(f"{key}: {value}" for key, value in found["machine"].items())
    return lines + ["", f"<sub>{machine}{'; quick, so of no worth' if found['quick'] else ''}</sub>"]


def write(folder, results):
    """`results` by part: {"machine", "quick", "result"}."""
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    (folder / "performance.json").write_text(json.dumps(results, indent=1) + "\n")
    lines = HEAD.splitlines()
    for name in PARTS:
        if name in results:
            lines += part_lines(folder, name, results[name])
    (folder / "performance.md").write_text("\n".join(lines) + "\n")
