"""Peak memory of each contestant: resident, and proportional (shared pages divided among those that share them)."""

import contextlib
import threading

from compare.contestants import Work, sharded, trainers
from compare.formula import bytes_by_part
from compare.job import Job
from compare.markdown import table
from compare.processes import forget_peak, peak_resident, proportional, resident
from compare.steps import LARGE, SMALL, TINY

STEPS = 3
SAMPLE_SECONDS = 0.02


def mean(value_of, processes):
    return sum(map(value_of, processes)) / len(processes)


@contextlib.contextmanager
def sampled(processes):
    """Yields a list of one number, the largest sum of proportional memory seen in the scope."""
    peak, done = [0], threading.Event()

    def sample():
        while not done.wait(SAMPLE_SECONDS):
            peak[0] = max(peak[0], sum(map(proportional, processes)))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield peak
    finally:
        done.set()
        sampler.join()


def measure(setup, contestant, ranks):
    """Bytes a rank, on average. `before` is a process that has loaded its libraries and met its peers."""
    setup.say(f"    {contestant.name}")
    with Job(contestant.name, contestant.command, ranks, setup.scratch) as job:
        processes = job.processes()
        before = {"resident": mean(resident, processes), "proportional": mean(proportional, processes)}
        job.ask("build")
        building = mean(peak_resident, processes)
        job.ask("steps", count=1)
        for process in processes:
            forget_peak(process)
        with sampled(processes) as peak:
            job.ask("steps", count=STEPS)
        return {
            "before": before,
            "building": building,
            "peak_resident": mean(peak_resident, processes),
            "peak_proportional": peak[0] / ranks,
            "parts": job.ask("memory")[0],
        }


def works(quick):
    shapes = [TINY] if quick else [SMALL, LARGE]
    return [Work(shape, dtype=dtype) for shape in shapes for dtype in ("fp32", "bf16")]


def run_work(setup, work):
    setup.say(f"  {work.shape}, {work.dtype}")
    fp32 = work.dtype == "fp32"
    contestants = trainers(setup, work, ["ddp", "fsdp1", "fsdp2"] if fp32 else ["fsdp1", "fsdp2"])
    if fp32:
        contestants.append(sharded(setup, work, "auto", "NoShard"))
    weights, numel = setup.weights_of(work.shape)
    return {
        "title": f"{work.shape}, {numel / 1e6:.3g} M parameters, {work.dtype}, {work.ranks} ranks",
        "contestants": {c.name: measure(setup, c, work.ranks) for c in contestants},
        "formula": {f"fsdp {b}": bytes_by_part(weights, work.ranks, work.dtype, b) for b in setup.backends},
    }


def run(setup):
    return {"works": [run_work(setup, work) for work in works(setup.quick)]}


def mib(size):
    return f"{size / 2**20:.1f}"


def cells(name, found):
    above_resident = found["peak_resident"] - found["before"]["resident"]
    above_proportional = found["peak_proportional"] - found["before"]["proportional"]
    numbers = [
        found["before"]["resident"],
        found["building"],
        found["peak_resident"],
        above_resident,
        above_proportional,
    ]
    return [name] + [mib(number) for number in numbers]


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
        "MiB a rank",
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
        lines += ["Of these, as `ShardedModel::memory()` reports, and by the formula:", "", *render_parts(work), ""]
    return lines[:-1]
