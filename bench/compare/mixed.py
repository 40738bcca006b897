"""A pipeline between hosts, with sharding inside of each, beside sharding over all ranks.

Two hosts with two ranks each, and a cable between them. All contestants run the same sequences in a step. Ranks of a
pipeline's stage lie on one host: parameters and gradients stay there, and activations go over the cable. Sharding over
all ranks sends parameters and gradients over it.
"""

import dataclasses

from compare.contestants import Contestant, Shape, Work
from compare.hosts import NoHosts, TwoHosts
from compare.markdown import table
from compare.pipelines import cuts_of
from compare.spread import measured, milliseconds, multiple, ratio
from compare.turns import compare_steps

RANKS, RANKS_OF_HOST = 4, 2
GIGABITS = 1
MICRO_BATCHES = 8  # of a pipeline, per rank of a stage
SHAPE = Shape(layers=8, width=512, heads=8, vocabulary=256)
QUICK_SHAPE = Shape(layers=2, width=32, heads=2, vocabulary=64, context=16)
OVER_ALL = "sharded over all ranks"
PER_HOST = "sharded on each host, replicated between hosts"
PIPELINE = "pipeline between hosts, sharded on each"


def pipeline(setup, work):
    command = [setup.program("train_pipeline"), "--backend", "auto", *work.arguments(setup)]
    cuts = ["--cuts", *map(str, cuts_of(work.shape.layers, RANKS // RANKS_OF_HOST))]
    data = ["--data", str(RANKS_OF_HOST), "--strategy", "ShardGradOp"]
    return Contestant(PIPELINE, [*command, "--micro-batches", str(MICRO_BATCHES), *cuts, *data])


def sharded(setup, work, name, strategy):
    """With as many sequences per rank, in one micro-batch: each parameter is gathered once for each pass."""
    batch = dataclasses.replace(work, batch=work.batch * MICRO_BATCHES * RANKS_OF_HOST // RANKS)
    command = [setup.program("train_sharded"), "--backend", "auto", "--strategy", strategy, *batch.arguments(setup)]
    return Contestant(name, command)


def contestants(setup, work):
    return [
        sharded(setup, work, OVER_ALL, "FullShard"),
        sharded(setup, work, PER_HOST, "HybridShard"),
        pipeline(setup, work),
    ]


def run(setup):
    work = Work(QUICK_SHAPE if setup.quick else SHAPE, batch=1, ranks=RANKS)
    setup.say(f"  {GIGABITS} Gbit/s: {work.shape}")
    try:
        with TwoHosts(GIGABITS, RANKS_OF_HOST) as hosts:
            found = compare_steps(setup, contestants(setup, work), RANKS, hosts)
    except NoHosts as problem:
        return {"problem": str(problem)}
    parameters = setup.weights_of(work.shape)[1]
    return {"shape": str(work.shape), "context": work.shape.context, "parameters": parameters, "contestants": found}


def mebibytes(counts):
    return f"{measured(counts).median / 2**20:.1f}"


def render(result):
    if "problem" in result:
        return [f"Not measured: {result['problem']}."]
    found = result["contestants"]
    reference = found[OVER_ALL]["seconds"]
    rows = [
        [name, mebibytes(of["received"]), milliseconds(of["seconds"]), multiple(of["seconds"], reference)]
        for name, of in found.items()
    ]
    sequences = MICRO_BATCHES * RANKS_OF_HOST
    return [
        f"Two hosts with {RANKS_OF_HOST} ranks each, and a cable of {GIGABITS} Gbit/s. {result['shape']}, "
        f"{result['parameters'] / 1e6:.3g} M parameters, {sequences} sequences of {result['context']} tokens in a "
        f"step, fp32, AdamW. The pipeline has {MICRO_BATCHES} micro-batches and `OneForwardOneBackward`; its stages "
        "are sharded by `ShardGradOp`.",
        "",
        *table(["ranks", "received by a host, MiB a step", "step, ms", f"of *{OVER_ALL}*"], rows),
    ]


def summary(result):
    if "problem" in result:
        return
    found = result["contestants"]
    slower = {"sharding over all ranks": ratio(found[PIPELINE]["seconds"], found[OVER_ALL]["seconds"])}
    yield f"Two hosts, {GIGABITS} Gbit/s", "a pipeline between them, sharded on each,", slower
