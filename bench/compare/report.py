"""The results as files: performance.json, performance.md and the plots."""

import json

from compare import (
    cables,
    calls,
    checkpoints,
    collectives,
    failures,
    growth,
    loss,
    memory,
    mixed,
    moments,
    offload,
    pipelines,
    plots,
    recomputation,
    settings,
    steps,
    tensor_parallel,
    trainers,
    wires,
)
from compare.contestants import PLAIN
from compare.page import FILE, described_machine, described_part
from compare.spread import with_spread

PARTS = {
    "steps": (steps, "A training step"),
    "settings": (settings, "Strategies, dtypes, and a Llama"),
    "memory": (memory, "Peak memory"),
    "recomputation": (recomputation, "Memory: recomputation"),
    "offload": (offload, "Memory: a step from files"),
    "moments": (moments, "Memory: moments in fewer bits"),
    "loss": (loss, "Memory: cross entropy without logits"),
    "trainers": (trainers, "fsdp-train and other trainers"),
    "checkpoints": (checkpoints, "Checkpoints"),
    "failures": (failures, "Failures"),
    "collectives": (collectives, "Collectives"),
    "calls": (calls, "Calls of a World"),
    "cables": (cables, "A broadcast over slow cables"),
    "pipelines": (pipelines, "Pipelines"),
    "tensor_parallel": (tensor_parallel, "Layers that are divided among ranks"),
    "mixed": (mixed, "A pipeline between hosts"),
    "growth": (growth, "Growth"),
    "wires": (wires, "Slow wires"),
}

HEAD = f"""# Performance

<!-- written by bench/run: do not edit; bench/README.md says how it is measured and how to read it -->

This library beside PyTorch on the same machine, with the same model, weights, tokens and threads, in turns of a few
steps. A figure is the median of the rounds; `±` is half the distance between their quartiles, in percent of the median.
A ratio is one of the same round's figures, and below 1 means faster, or smaller. The *{PLAIN}* communicates nothing:
its forward and backward pass, and AdamW on a rank's share of the parameters.
"""

QUICK = "Quick, on tiny models: of no worth but to see that all parts work."


def short_lines(module, result):
    """Of a part: its comparisons, and what it has to say in other words."""
    if hasattr(module, "summary"):
        for what, contestant, multiples in module.summary(result):
            cells = [f"{with_spread(f'{found.median:.2f}', found)} of {other}" for other, found in multiples.items()]
            yield f"- **{what}**: {contestant} takes {', '.join(cells)}."
    if hasattr(module, "remarks"):
        for what, text in module.remarks(result):
            yield f"- **{what}**: {text}."


def summary_lines(results):
    lines = [line for name, result in results.items() for line in short_lines(PARTS[name][0], result)]
    return ["", "## In short", "", *lines] if lines else []


def part_lines(folder, name, part):
    module, title = PARTS[name]
    result = part["result"]
    lines = ["", f"## {title}", "", described_part(part), "", *module.render(result)]
    if picture := plots.draw(folder, name, result):
        lines += ["", f"![{title}](pictures/{picture})"]
    return lines


def page_text(folder, page):
    parts = {name: page["parts"][name] for name in PARTS if name in page["parts"]}
    lines = HEAD.splitlines() + ["", described_machine(page) + "."]
    if page["quick"]:
        lines += ["", QUICK]
    lines += summary_lines({name: part["result"] for name, part in parts.items()})
    for name, part in parts.items():
        lines += part_lines(folder, name, part)
    return "\n".join(lines) + "\n"


def write(folder, page):
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(json.dumps(page, indent=1) + "\n")
    (folder / "performance.md").write_text(page_text(folder, page))
