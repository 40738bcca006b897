"""Peak memory of each contestant: resident, and proportional (shared pages divided among those that share them)."""

import contextlib
import statistics
import threading

from compare.contestants import PEERS, Work, sharded, trainers
from compare.formula import bytes_by_part
from compare.job import Job
from compare.markdown import table
from compare.spread import measured, ratio, with_spread
from compare.processes import forget_peak, peak_resident, proportional, resident
from compare.steps import LARGE, SMALL, TINY

WARM_UP_STEPS, STEPS = 1, 4
SAMPLE_SECONDS = 0.02


def each(value_of, processes):
    return [value_of(process) for process in processes]


@contextlib.contextmanager
def sampled(processes):
    """Yields a list of one number, the largest sum of proportional memory seen in the scope."""
    peak, done = [0], threading.Event()

    def sample():
        over = False
        while not over:
            peak[0] = max(peak[0], sum(map(proportional, processes)))
            over = done.wait(SAMPLE_SECONDS)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield peak
    finally:
        done.set()
        sampler.join()


def peaks_of_step(job):
    """Of one step, by rank what was resident at most; and of all ranks the proportional memory at most."""
    processes = job.processes()
    for process in processes:
        forget_peak(process)
    with sampled(processes) as proportional_peak:
        job.ask("steps", count=1)
    return each(peak_resident, processes), proportional_peak[0]


def measure(setup, contestant, ranks):
    """Bytes: lists by rank; "peak_resident" by step and rank, and "peak_proportional" by step, a mean of the ranks.
    `before` is a process that has loaded its libraries and met its peers, "activations" what it counts itself."""
    setup.say(f"    {contestant.name}")
    with Job(contestant.name, contestant.command, ranks, setup.scratch) as job:
        processes = job.processes()
        before = {"resident": each(resident, processes), "proportional": each(proportional, processes)}
        job.ask("build")
        building = each(peak_resident, processes)
        job.ask("steps", count=WARM_UP_STEPS)
        steps = [peaks_of_step(job) for _ in range(STEPS)]
        return {
            "before": before,
            "building": building,
            "peak_resident": [of_ranks for of_ranks, _ in steps],
            "peak_proportional": [of_all / ranks for _, of_all in steps],
            "parts": job.ask("memory")[0],
            "activations": [answer.get("peak") for answer in job.ask("activations")],
        }


def works(quick):
    if quick:
        return [Work(TINY, dtype=dtype) for dtype in ("fp32", "bf16")]
    return [Work(LARGE), Work(SMALL), Work(SMALL, dtype="bf16")]


def run_work(setup, work):
    setup.say(f"  {work.shape}, {work.dtype}")
    fp32 = work.dtype == "fp32"
    kinds = ["ddp", "fsdp1", "fsdp2", "deepspeed"] if fp32 else ["ddp-autocast", "fsdp1", "fsdp2", "deepspeed"]
    contestants = trainers(setup, work, kinds)
    if fp32:
        contestants.append(sharded(setup, work, "auto", "NoShard"))
    weights, numel = setup.weights_of(work.shape)
    return {
        "dtype": work.dtype,
        "title": f"{work.shape}, {numel / 1e6:.3g} M parameters, {work.dtype}, {work.ranks} ranks",
        "contestants": {c.name: measure(setup, c, work.ranks) for c in contestants},
        "formula": {f"fsdp {b}": bytes_by_part(weights, work.ranks, work.dtype, b) for b in setup.backends},
    }


def run(setup):
    return {"works": [run_work(setup, work) for work in works(setup.quick)]}


def mib(size):
    return f"{size / 2**20:.1f}"


def above_resident(found):
    """By step and rank."""
    return [
        peak - before
        for of_ranks in found["peak_resident"]
        for peak, before in zip(of_ranks, found["before"]["resident"])
    ]


def above_proportional(found):
    """By step."""
    before = statistics.fmean(found["before"]["proportional"])
    return [peak - before for peak in found["peak_proportional"]]


def cells(name, found):
    columns = [
        found["before"]["resident"],
        found["building"],
        [peak for of_ranks in found["peak_resident"] for peak in of_ranks],
        above_resident(found),
        above_proportional(found),
    ]
    return [name] + [with_spread(mib(measured(column).median), measured(column)) for column in columns]


def render_parts(work):
    rows = []
    for name, found in work["contestants"].items():
        parts, expected = found["parts"], work["formula"].get(name)
        if not parts:
            continue
        names = list(parts)
        rows.append([name] + [mib(size) for size in parts.values()] + [mib(sum(parts.values())), "–"])
        if expected:
            ratio = sum(parts.values()) / sum(expected.values())
            sizes = [mib(expected[part]) for part in names] + [mib(sum(expected.values()))]
            rows[-1][-1] = f"{ratio:.3f}"
            rows.append([f"formula, {name}"] + sizes + ["1.000"])
    return table(["MiB on rank 0"] + names + ["sum", "of the formula"], rows)


def render(result):
    head = [
        "MiB per rank",
        "before the model",
        "peak so far when built",
        "peak of steps",
        "above before",
        "above before, PSS",
    ]
    lines = []
    for work in result["works"]:
        found = work["contestants"]
        lines += [f"{work['title']}:", "", *table(head, [cells(name, value) for name, value in found.items()]), ""]
        lines += ["The library's part, as `ShardedModel::memory()` counts it, and by the formula:", "", *render_parts(work), ""]
    return lines[:-1]


def summary(result):
    """The first model, which is the largest, in each dtype."""
    for work in {work["dtype"]: work for work in reversed(result["works"])}.values():
        found = work["contestants"]
        name = next(name for name in found if name.startswith("fsdp"))
        peak = above_proportional(found[name])
        others = [PEERS[kind] for kind in ("fsdp2", "fsdp1", "ddp", "ddp-autocast", "deepspeed")]
        multiples = {other: ratio(peak, above_proportional(found[other])) for other in others if other in found}
        shape = ", ".join(work["title"].split(", ")[1:-1])
        yield f"Peak memory above the empty process, {shape}", name, multiples
