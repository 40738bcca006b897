"""One model in other settings: the strategies, the dtypes, and a Llama."""

import dataclasses

from compare.contestants import PEERS, PLAIN, Shape, Work, peer, sharded, trainers
from compare.machine import has_bf16
from compare.markdown import table
from compare.spread import milliseconds, multiple, ratio, with_spread
from compare.steps import SMALL, TINY, loss_difference
from compare.turns import compare_steps

STRATEGIES = ["FullShard", "ShardGradOp", "ShardOptimizer", "NoShard", "HybridShard", "HybridShardGradOp"]
# Each of PyTorch's strategies, beside ours that divides the same.
COUNTERPARTS = {"fsdp2": "FullShard", "fsdp2-grad-op": "ShardGradOp", "ddp": "NoShard", "fsdp2-hybrid": "HybridShard"}
DTYPES = ["fp32", "bf16", "fp16"]
LLAMA = Shape(layers=6, width=512, heads=8, family="llama")
QUICK_LLAMA = dataclasses.replace(TINY, family="llama")


def name_of(setup, strategy):
    """Over Gloo, where parameters and gradients are sent as over a network."""
    return sharded(setup, Work(TINY), "gloo", strategy).name


def of_strategies(setup):
    work = Work(TINY if setup.quick else SMALL, batch=1, ranks=4)
    invited = [sharded(setup, work, "gloo", strategy) for strategy in STRATEGIES]
    invited += [peer(setup, work, kind) for kind in COUNTERPARTS]
    counterparts = {name_of(setup, strategy): PEERS[kind] for kind, strategy in COUNTERPARTS.items()}
    return work, invited, {"counterparts": counterparts}


def of_dtypes(setup):
    work = Work(TINY if setup.quick else SMALL, batch=1)
    dtypes = DTYPES if has_bf16() else DTYPES[:1]
    makers = (lambda work: sharded(setup, work, setup.backends[0]), lambda work: peer(setup, work, "fsdp2"))
    names, invited = {}, []
    for make in makers:
        for dtype in dtypes:
            contestant = make(dataclasses.replace(work, dtype=dtype))
            named = dataclasses.replace(contestant, name=f"{contestant.name}, {dtype}")
            names.setdefault(contestant.name, {})[dtype] = named.name
            invited.append(named)
    return work, invited, {"names": names}


def of_llama(setup):
    work = Work(QUICK_LLAMA if setup.quick else LLAMA, batch=1)
    return work, trainers(setup, work, ["fsdp2", "fsdp1", "ddp"]), {}


def run_work(setup, work, invited, more):
    setup.say(f"  {work.shape}, {work.ranks} ranks: {', '.join(contestant.name for contestant in invited)}")
    found = compare_steps(setup, invited, work.ranks)
    parameters = setup.weights_of(work.shape)[1]
    return {"shape": str(work.shape), "parameters": parameters, "work": dataclasses.asdict(work), "contestants": found} | more


def run(setup):
    result = {"dtypes": run_work(setup, *of_dtypes(setup)), "llama": run_work(setup, *of_llama(setup))}
    if "gloo" in setup.backends:
        result["strategies"] = run_work(setup, *of_strategies(setup))
    return result


def title(found):
    settings = found["work"]
    tokens = f"{settings['batch']} x {settings['shape']['context']}"
    return f"{found['shape']}, {found['parameters'] / 1e6:.3g} M parameters, batch {tokens}, {settings['ranks']} ranks"


def render_strategies(found):
    contestants, counterparts = found["contestants"], found["counterparts"]
    first = next(iter(contestants))
    rows = []
    for name, of in contestants.items():
        counterpart = contestants.get(counterparts.get(name), {}).get("seconds")
        waits = milliseconds(of["waited"]) if None not in of["waited"] else "–"
        row = [name, milliseconds(of["seconds"]), multiple(of["seconds"], contestants[first]["seconds"])]
        rows.append([*row, multiple(of["seconds"], counterpart), waits])
    return [
        f"The strategies: {title(found)}, fp32, over Gloo. There are groups of two ranks in the hybrid ones. "
        "The counterpart is the strategy of PyTorch that divides the same.",
        "",
        *table(["contestant", "step, ms", f"of {first}", "of its counterpart", "a rank waits, ms"], rows),
    ]


def render_dtypes(found):
    contestants, names = found["contestants"], found["names"]
    ours, theirs = names.values()
    rows = []
    for of_dtype in (ours, theirs):
        for dtype, name in of_dtype.items():
            if name not in contestants:
                continue
            seconds = contestants[name]["seconds"]
            bf16 = contestants.get(of_dtype.get("bf16"), {}).get("seconds")
            counterpart = contestants.get(theirs[dtype], {}).get("seconds")
            losses = contestants[name]["losses"]
            rows.append([name, milliseconds(seconds), multiple(seconds, bf16), multiple(seconds, counterpart), f"{losses[-1]:.4f}"])
    return [
        f"The dtypes: {title(found)}. In fp16 each side scales its loss with its `GradScaler`; gradients are reduced in "
        "fp32.",
        "",
        *table(["contestant", "step, ms", "of the same in bf16", f"of {PEERS['fsdp2']}", "last loss"], rows),
    ]


def render_llama(found):
    contestants = found["contestants"]
    reference = contestants.get(PEERS["fsdp2"], {}).get("seconds")
    rows = []
    for name, of in contestants.items():
        difference = "–" if name == PLAIN else f"{loss_difference(contestants, name):.1e}"
        row = [name, milliseconds(of["seconds"]), multiple(of["seconds"], reference)]
        rows.append([*row, multiple(of["seconds"], contestants[PLAIN]["seconds"]), difference])
    return [
        f"A Llama: {title(found)}, fp32. PyTorch's contestants train the model of Hugging Face.",
        "",
        *table(["contestant", "step, ms", f"of {PEERS['fsdp2']}", f"of the {PLAIN}", "largest difference"], rows),
    ]


RENDER = {"strategies": render_strategies, "dtypes": render_dtypes, "llama": render_llama}


def render(result):
    parts = [RENDER[kind](result[kind]) for kind in RENDER if kind in result]
    return [line for part in parts for line in ["", *part]][1:]


def remarks(result):
    """That fp16 takes longer than bf16, or does not."""
    found = result["dtypes"]["contestants"]
    for of_dtype in result["dtypes"]["names"].values():
        fp16, bf16 = (found.get(of_dtype.get(dtype)) for dtype in ("fp16", "bf16"))
        if fp16 and bf16:
            slower = ratio(fp16["seconds"], bf16["seconds"])
            text = with_spread(f"{slower.median:.2f}", slower)
            yield "fp16 beside bf16", f"a step of {of_dtype['fp16']}, takes {text} of the same in bf16"


def summary(result):
    found = result["llama"]["contestants"]
    name = next(name for name in found if name.startswith("fsdp"))
    others = [PEERS[kind] for kind in ("fsdp2", "fsdp1", "ddp") if PEERS[kind] in found]
    multiples = {other: ratio(found[name]["seconds"], found[other]["seconds"]) for other in others}
    yield f"A step of a Llama, {result['llama']['parameters'] / 1e6:.3g} M parameters, fp32", name, multiples
