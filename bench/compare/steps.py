"""A training step: this library, PyTorch's DDP, FSDP1 and FSDP2, and the limit without communication."""

import dataclasses

from compare.contestants import LIMIT, PEERS, Shape, Work, sharded, stepping_in_backward, trainers
from compare.markdown import table
from compare.turns import compare_steps

SMALL = Shape(layers=6, width=512, heads=8)
LARGE = Shape(layers=12, width=768, heads=12)
TINY = Shape(layers=2, width=64, heads=2, vocabulary=256, context=32)
REFERENCE = PEERS["fsdp2"]


def works(quick):
    if quick:
        return [Work(TINY, dtype=dtype) for dtype in ("fp32", "bf16")]
    return [Work(shape, batch, dtype) for shape in (SMALL, LARGE) for dtype in ("fp32", "bf16") for batch in (4, 1)]


def contestants(setup, work):
    """The most important first: for the last there may be no memory."""
    early = stepping_in_backward(setup, work, setup.backends[0])
    if work.dtype == "bf16":
        return trainers(setup, work, ["fsdp2", "fsdp1"]) + [early]
    return trainers(setup, work, ["fsdp2", "fsdp1", "ddp"]) + [sharded(setup, work, "auto", "NoShard"), early]


def run_work(setup, work):
    setup.say(f"  {work.shape}, {work.dtype}, batch {work.batch} x {work.shape.context}, {work.ranks} ranks")
    invited = contestants(setup, work)
    result = compare_steps(setup, invited, work.ranks)
    return {
        "shape": str(work.shape),
        "parameters": setup.weights_of(work.shape)[1],
        "work": dataclasses.asdict(work),
        "contestants": result,
        "left_out": [contestant.name for contestant in invited if contestant.name not in result],
    }


def run(setup):
    return {"works": [run_work(setup, work) for work in works(setup.quick)]}


def loss_difference(contestants, name):
    """The largest difference to the first contestant that trains, of any step."""
    first = next(value for key, value in contestants.items() if key != LIMIT)
    return max(abs(a - b) for a, b in zip(contestants[name]["losses"], first["losses"]))


def ratio(median, other):
    return f"{median / other['median']:.2f}" if other else "–"


def row(contestants, name):
    median = contestants[name]["median"]
    ratios = [ratio(median, contestants.get(other)) for other in (REFERENCE, LIMIT)]
    losses = contestants[name]["losses"]
    if name == LIMIT:
        return [name, f"{1e3 * median:.1f}", *ratios, f"{losses[0]:.4f}", "–", "–"]
    difference = loss_difference(contestants, name)
    return [name, f"{1e3 * median:.1f}", *ratios, f"{losses[0]:.4f}", f"{losses[-1]:.4f}", f"{difference:.1e}"]


def title(work):
    settings = work["work"]
    tokens = f"{settings['batch']} x {settings['shape']['context']}"
    millions = work["parameters"] / 1e6
    return (
        f"{work['shape']}, {millions:.3g} M parameters, {settings['dtype']}, batch {tokens}, {settings['ranks']} ranks"
    )


def render(result):
    head = [
        "contestant",
        "step, ms",
        f"of {REFERENCE}",
        "of the limit",
        "first loss",
        "last loss",
        "largest difference",
    ]
    lines = []
    for work in result["works"]:
        rows = [row(work["contestants"], name) for name in work["contestants"]]
        left_out = f" (no memory was left for {', '.join(work['left_out'])})" if work["left_out"] else ""
        lines += [f"{title(work)}{left_out}:", "", *table(head, rows), ""]
    return lines[:-1]
