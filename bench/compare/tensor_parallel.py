"""Layers that are divided among ranks: this library and PyTorch's DTensor."""

import dataclasses

from compare.contestants import Contestant, Shape, Work
from compare.markdown import table
from compare.spread import measured, milliseconds, multiple, ratio, with_spread
from compare.turns import compare_steps

PEER = "PyTorch DTensor"
ALONE = "one process"
# The vocabulary is small, because embedding and head are whole on each rank.
WIDE = Shape(layers=4, width=1024, heads=16, vocabulary=256)
SMALL = Shape(layers=6, width=512, heads=8, vocabulary=256)
QUICK_SHAPE = Shape(layers=2, width=32, heads=2, vocabulary=64, context=16)


def works(quick):
    if quick:
        return [Work(QUICK_SHAPE, batch=1)]
    return [Work(SMALL, batch=4), Work(SMALL, batch=1), Work(WIDE, batch=1)]


def contestants(setup, work):
    def ours(backend):
        return [setup.program("train_tensor_parallel"), "--backend", backend] + work.arguments(setup)

    mine = [Contestant(f"fsdp {backend}", ours(backend)) for backend in setup.backends]
    alone = Contestant(ALONE, ours(setup.backends[0]), ranks=1)
    return [alone, *mine, Contestant(PEER, setup.module("peer.tensor_parallel") + work.arguments(setup))]


def run_work(setup, work):
    setup.say(f"  {work.shape}, batch {work.batch} x {work.shape.context}")
    return {
        "shape": str(work.shape),
        "parameters": setup.weights_of(work.shape)[1],
        "work": dataclasses.asdict(work),
        "contestants": compare_steps(setup, contestants(setup, work), work.ranks),
    }


def run(setup):
    return {"works": [run_work(setup, work) for work in works(setup.quick)]}


def loss_difference(found, name):
    """The largest difference to one process, of any step."""
    return max(abs(a - b) for a, b in zip(found[name]["losses"], found[ALONE]["losses"]))


def row_of(found, name):
    seconds = found[name]["seconds"]
    of_peer = multiple(seconds, found.get(PEER, {}).get("seconds"))
    speed = measured(alone / step for alone, step in zip(found[ALONE]["seconds"], seconds))
    faster = "1" if name == ALONE else with_spread(f"{speed.median:.2f}", speed)
    return [name, milliseconds(seconds), of_peer, faster, f"{loss_difference(found, name):.1e}"]


def render(result):
    head = ["contestant", "step, ms", f"of {PEER}", "speed-up", "largest difference"]
    lines = [
        "A step of a GPT on 2 ranks: forward, backward and fused AdamW, fp32. Attention and MLP of each block are a column "
        "and a row layer each; embedding, norms and head are whole on each rank. *Speed-up* is how many times faster a "
        "step is than that of one process with one thread. The last column is the largest difference of a loss to one "
        "process."
    ]
    for work in result["works"]:
        settings, found = work["work"], work["contestants"]
        tokens = f"{settings['batch']} x {settings['shape']['context']}"
        title = f"{work['shape']}, {work['parameters'] / 1e6:.3g} M parameters, batch {tokens}:"
        lines += ["", title, "", *table(head, [row_of(found, name) for name in found])]
    return lines


def summary(result):
    for work in result["works"]:
        found = work["contestants"]
        name = next(name for name in found if name.startswith("fsdp"))
        if PEER in found:
            what = f"Divided layers, {work['parameters'] / 1e6:.3g} M parameters, batch {work['work']['batch']}, 2 ranks"
            yield what, name, {PEER: ratio(found[name]["seconds"], found[PEER]["seconds"])}
