"""A training step: this library, PyTorch's DDP, FSDP1 and FSDP2, DeepSpeed, and the plain model, which communicates
nothing."""

import dataclasses

from compare.contestants import (
    KEPT,
    PEERS,
    PLAIN,
    Shape,
    Work,
    peer,
    plain_keeping_memory,
    sharded,
    stepping_in_backward,
    trainers,
)
from compare.machine import has_bf16
from compare.markdown import table
from compare.spread import milliseconds, multiple, ratio
from compare.turns import compare_steps

SMALL = Shape(layers=6, width=512, heads=8)
LARGE = Shape(layers=12, width=768, heads=12)
TINY = Shape(layers=2, width=64, heads=2, vocabulary=256, context=32)
COMPILED = Work(SMALL)  # once: compiling takes minutes
REFERENCE = PEERS["fsdp2"]


def works(quick):
    if quick:
        return [Work(TINY, dtype=dtype) for dtype in ("fp32", "bf16")]
    fp32 = [Work(shape, batch) for shape in (LARGE, SMALL) for batch in (4, 1)]
    return fp32 + [Work(LARGE, 1, "bf16"), Work(SMALL, 4, "bf16")] * has_bf16()


def contestants(setup, work):
    """The first are those that others are compared with; the largest is the last."""
    early = stepping_in_backward(setup, work, setup.backends[0])
    if work.dtype == "bf16":
        found = trainers(setup, work, ["fsdp2", "fsdp1", "ddp-autocast"]) + [early]
    else:
        found = trainers(setup, work, ["fsdp2", "fsdp1", "ddp"])
        found += [plain_keeping_memory(setup, work), sharded(setup, work, "auto", "NoShard"), early]
    if work == COMPILED:
        found.append(peer(setup, work, "ddp-compile"))
    return found + [peer(setup, work, "deepspeed")] * setup.has_peer("deepspeed")


def compare_in_groups(setup, invited, ranks):
    """`Turns.found` of all, in as many groups as the memory asks for. The plain model, the first that trains and the
    reference take part in each; who came in a later one has their seconds there as "beside"."""
    found = compare_steps(setup, invited, ranks)
    first = next(contestant.name for contestant in invited if trains(contestant.name))
    references = [contestant for contestant in invited if contestant.name in (PLAIN, first, REFERENCE)]
    while left := [contestant for contestant in invited if contestant.name not in found]:
        group = compare_steps(setup, references + left, ranks)
        beside = {reference.name: group[reference.name]["seconds"] for reference in references}
        new = {c.name: group[c.name] | {"beside": beside} for c in left if c.name in group}
        if not new:
            break
        found |= new
    return found


def run_work(setup, work):
    setup.say(f"  {work.shape}, {work.dtype}, batch {work.batch} x {work.shape.context}, {work.ranks} ranks")
    invited = contestants(setup, work)
    result = compare_in_groups(setup, invited, work.ranks)
    return {
        "shape": str(work.shape),
        "parameters": setup.weights_of(work.shape)[1],
        "work": dataclasses.asdict(work),
        "contestants": result,
        "left_out": [contestant.name for contestant in invited if contestant.name not in result],
    }


def run(setup):
    absent = [PEERS[kind] for kind in ("deepspeed",) if not setup.has_peer(kind)]
    found = [run_work(setup, work) for work in works(setup.quick)]
    return {"works": found, "not_installed": absent, "without_bf16": not has_bf16()}


def trains(name):
    """Whether its losses are those of training."""
    return not name.startswith(PLAIN)


def loss_difference(contestants, name):
    """The largest difference to the first contestant that trains, of any step."""
    first = next(value for key, value in contestants.items() if trains(key))
    return max(abs(a - b) for a, b in zip(contestants[name]["losses"], first["losses"]))


def seconds_beside(contestants, name, other):
    """Of `other`, in the turns that `name` took part in; None where it did not."""
    return contestants[name].get("beside", {}).get(other) or contestants.get(other, {}).get("seconds")


def row(contestants, name):
    found = contestants[name]
    ratios = [multiple(found["seconds"], seconds_beside(contestants, name, other)) for other in (REFERENCE, PLAIN)]
    begin = [name, milliseconds(found["seconds"]), *ratios, f"{found['losses'][0]:.4f}"]
    if not trains(name):
        return begin + ["–", "–"]
    return begin + [f"{found['losses'][-1]:.4f}", f"{loss_difference(contestants, name):.1e}"]


def title(work):
    settings = work["work"]
    tokens = f"{settings['batch']} x {settings['shape']['context']}"
    millions = work["parameters"] / 1e6
    return (
        f"{work['shape']}, {millions:.3g} M parameters, {settings['dtype']}, batch {tokens}, {settings['ranks']} ranks"
    )


EXPLANATION = f"""Can a model that communicates be faster than the *{PLAIN}*, which does not? Yes: the plain model's backward
pass makes new memory for each gradient, and gives it back after the step: thousands of pages, each of which the system
finds and clears again in the next step. This library writes gradients of linear layers into buffers that it keeps.
*{KEPT}* is told to keep what it frees, and takes no page faults; what communication costs is the distance to that."""


def render(result):
    head = [
        "contestant",
        "step, ms",
        f"of {REFERENCE}",
        f"of the {PLAIN}",
        "first loss",
        "last loss",
        "largest difference",
    ]
    lines = [*EXPLANATION.splitlines(), ""]
    if result["not_installed"]:
        lines += [f"Not installed, so not here: {', '.join(result['not_installed'])}.", ""]
    if result.get("without_bf16"):
        lines += ["This processor has no instructions for bf16: a step in it takes many times as long as in fp32, and is not measured.", ""]
    for work in result["works"]:
        rows = [row(work["contestants"], name) for name in work["contestants"]]
        notes = [f"no memory was left for {', '.join(work['left_out'])}"] if work["left_out"] else []
        if later := [name for name, found in work["contestants"].items() if "beside" in found]:
            notes.append(f"the memory did not hold all at once: {', '.join(later)} took turns of their own")
        note = f" ({'; '.join(notes)})" if notes else ""
        lines += [f"{title(work)}{note}:", "", *table(head, rows), ""]
    return lines[:-1]


OTHERS = (REFERENCE, PEERS["fsdp1"], PEERS["ddp"], PEERS["ddp-autocast"], PEERS["deepspeed"], PLAIN)


def summary(result):
    """The largest model, in each dtype."""
    largest = {}
    for work in result["works"]:
        dtype = work["work"]["dtype"]
        largest[dtype] = max(largest.get(dtype, 0), work["parameters"])
    for work in result["works"]:
        if work["parameters"] < largest[work["work"]["dtype"]]:
            continue
        found = work["contestants"]
        name = next(filter(trains, found))
        settings = work["work"]
        what = f"{work['parameters'] / 1e6:.3g} M parameters, {settings['dtype']}, batch {settings['batch']}"
        multiples = {
            other: ratio(seconds_beside(found, other, name), found[other]["seconds"])
            for other in OTHERS
            if other in found
        }
        yield f"A step, {what}", name, multiples
