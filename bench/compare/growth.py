"""How a step grows with the number of ranks, and with the number of layers: the cost of a layer stays flat."""

import dataclasses

from compare.contestants import PLAIN, Shape, Work, trainers
from compare.markdown import table
from compare.spread import measured, milliseconds, multiple, with_spread
from compare.steps import TINY
from compare.turns import compare_steps

PEERS = ["fsdp2"]


def by_ranks(quick):
    shape = TINY if quick else Shape(layers=6, width=256, heads=4)
    return [Work(shape, batch=1, ranks=ranks) for ranks in ((1, 4) if quick else (1, 2, 4, 8, 16))]


def by_layers(quick):
    width = 32 if quick else 128
    counts = (2, 4) if quick else (6, 24, 48)
    return [Work(Shape(layers=layers, width=width, heads=2, vocabulary=256), batch=1) for layers in counts]


def run_work(setup, work):
    setup.say(f"  {work.shape}, {work.ranks} ranks")
    result = compare_steps(setup, trainers(setup, work, PEERS), work.ranks)
    return {"work": dataclasses.asdict(work), "seconds": {name: found["seconds"] for name, found in result.items()}}


def run(setup):
    return {
        "ranks": [run_work(setup, work) for work in by_ranks(setup.quick)],
        "layers": [run_work(setup, work) for work in by_layers(setup.quick)],
    }


def render_ranks(rows):
    names = list(rows[0]["seconds"])
    cells = []
    for row in rows:
        seconds = row["seconds"]
        values = [f"{milliseconds(seconds[name])} ({multiple(seconds[name], seconds[PLAIN])})" for name in names]
        cells.append([str(row["work"]["ranks"])] + values)
    return table(["ranks"] + names, cells)


def per_layer(row, name):
    return measured(1e3 * seconds / row["work"]["shape"]["layers"] for seconds in row["seconds"][name])


def render_layers(rows):
    names = list(rows[0]["seconds"])
    cells = []
    for row in rows:
        costs = [per_layer(row, name) for name in names]
        layers = str(row["work"]["shape"]["layers"])
        cells.append([layers] + [with_spread(f"{cost.median:.2f}", cost) for cost in costs])
    return table(["layers"] + names, cells)


def render(result):
    return [
        "By the number of ranks; a rank's work is always the same, so that more ranks than cores take longer. "
        "Milliseconds a step, in brackets as a multiple of the plain model's, which does not communicate:",
        "",
        *render_ranks(result["ranks"]),
        "",
        "By the number of layers; milliseconds a step and layer:",
        "",
        *render_layers(result["layers"]),
    ]
