"""Activations that the backward makes again instead of keeping them: what a step costs, and what it holds."""

import dataclasses

from compare.contestants import PEERS, RECOMPUTATIONS, Work, peer, recomputing, sharded, within_budget
from compare.markdown import table
from compare.memory import above_proportional, measure, mib
from compare.spread import measured, multiple, ratio, with_spread
from compare.steps import LARGE, TINY, compare_in_groups, loss_difference, seconds_beside

# Long enough for activations to be much of the memory.
LONG = dataclasses.replace(LARGE, context=512)
KINDS = ("fsdp2", "fsdp2-recompute-all", "fsdp2-recompute-selective", "fsdp2-offload")
HALF = "budget at half"
# Of PyTorch's, beside ours.
PEER_OF = {"all": PEERS["fsdp2-recompute-all"], "selective": PEERS["fsdp2-recompute-selective"]}


def work_of(quick):
    return Work(TINY if quick else LONG, batch=2)


def budget_of(setup, work, keeping_all):
    """Half of the activations of one that keeps all."""
    setup.say("  activations without recomputation:")
    return max(measure(setup, keeping_all, work.ranks)["activations"]) // 2


def contestants(setup, work):
    """The most important first; the first of all keeps everything."""
    backend = setup.backends[0]
    first = sharded(setup, work, backend)
    ours = [recomputing(setup, work, backend, recomputation) for recomputation in RECOMPUTATIONS]
    ours.append(within_budget(setup, work, backend, budget_of(setup, work, first), HALF))
    return [first, *ours] + [peer(setup, work, kind) for kind in KINDS]


def run(setup):
    work = work_of(setup.quick)
    setup.say(f"  {work.shape}, {work.dtype}, batch {work.batch} x {work.shape.context}, {work.ranks} ranks")
    invited = contestants(setup, work)
    steps = compare_in_groups(setup, invited, work.ranks)
    there = [contestant for contestant in invited if contestant.name in steps]
    return {
        "shape": str(work.shape),
        "parameters": setup.weights_of(work.shape)[1],
        "work": dataclasses.asdict(work),
        "contestants": {c.name: steps[c.name] | {"memory": measure(setup, c, work.ranks)} for c in there},
        "left_out": [contestant.name for contestant in invited if contestant.name not in steps],
    }


def rates(result, name):
    """Tokens per second of all ranks, by round."""
    work = result["work"]
    tokens = work["ranks"] * work["batch"] * work["shape"]["context"]
    return [tokens / seconds for seconds in result["contestants"][name]["seconds"]]


def peaks(result, name):
    """Bytes per rank, by step."""
    return above_proportional(result["contestants"][name]["memory"])


def activations(result, name):
    """As the library counts them; others do not."""
    counted = [peak for peak in result["contestants"][name]["memory"]["activations"] if peak is not None]
    return mib(max(counted)) if counted else "–"


def row(result, name):
    found, first = result["contestants"], next(iter(result["contestants"]))
    rate, peak = measured(rates(result, name)), measured(peaks(result, name))
    return [
        name,
        with_spread(f"{rate.median:.0f}", rate),
        multiple(found[name]["seconds"], seconds_beside(found, name, first)),
        with_spread(mib(peak.median), peak),
        multiple(peaks(result, name), peaks(result, first)),
        activations(result, name),
        f"{loss_difference(found, name):.1e}",
    ]


def parameters(result):
    return f"{result['parameters'] / 1e6:.3g} M parameters, {result['work']['dtype']}"


EXPLANATION = f"""*All recomputed*: each block keeps its input, and runs again in the backward. *Selective*: it keeps the results of
products and of attention, too. *Budget at half*: `activation_memory` is half of what is kept otherwise. In PyTorch the
first two are `torch.utils.checkpoint` around each block, non-reentrant. *{PEERS["fsdp2-offload"]}* is
`CPUOffloadPolicy(pin_memory=False)`: shards, gradients and optimizer state lie in the host's memory. On CPUs that is
where they lie anyway, so it saves nothing; pinned memory is for devices."""


def render(result):
    first = next(iter(result["contestants"]))
    head = [
        "contestant",
        "tokens per second",
        f"time, of {first}",
        "peak memory, MiB per rank",
        f"peak, of {first}",
        "of that activations, MiB",
        "largest difference of losses",
    ]
    work = result["work"]
    tokens = f"batch {work['batch']} x {work['shape']['context']}, {work['ranks']} ranks"
    left_out = f" (no memory was left for {', '.join(result['left_out'])})" if result["left_out"] else ""
    rows = [row(result, name) for name in result["contestants"]]
    title = f"{result['shape']}, {parameters(result)}, {tokens}{left_out}; peaks are those of PSS above the process:"
    return [*EXPLANATION.splitlines(), "", title, "", *table(head, rows)]


def summary(result):
    """The time and the peak of each way that PyTorch has as well."""
    found = result["contestants"]
    first = next(iter(found))
    for recomputation, words in (RECOMPUTATIONS | {"budget": HALF}).items():
        name = f"{first}, {words}"
        others = [other for other in (first, PEER_OF.get(recomputation)) if other in found]
        if name not in found:
            continue
        times = {other: ratio(found[name]["seconds"], seconds_beside(found, name, other)) for other in others}
        yield f"A step, {words}, {parameters(result)}", name, times
        yield (
            f"Peak memory above the empty process, {words}",
            name,
            {other: ratio(peaks(result, name), peaks(result, other)) for other in others},
        )
