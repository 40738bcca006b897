"""A step of AdamW with moments in fp32, in bf16 and in blocks of 8 bits: time and memory per parameter."""

from compare import programs
from compare.markdown import table
from compare.spread import with_spread

FORMATS = ("fp32", "bf16", "8bit")  # as bench_optimizer_state names its counters
REFERENCE = FORMATS[0]


def run(setup):
    return {"benchmarks": programs.run(setup, "optimizer_state", "threads:1" if setup.quick else "")}


def threads(benchmark):
    count = benchmark["arguments"]["threads"]
    return f"{count} thread" + ("" if count == 1 else "s")


def shown(found, digits):
    return with_spread(f"{found.median:.{digits}f}", found)


def time_cells(benchmark, name):
    time = shown(programs.counter(benchmark, f"{name}_ns"), 3)
    return [time, "1" if name == REFERENCE else shown(programs.counter(benchmark, f"{name}_ratio"), 2)]


def row(benchmarks, name):
    size = programs.counter(benchmarks[0], f"{name}_bytes").median
    whole = programs.counter(benchmarks[0], f"{REFERENCE}_bytes").median
    times = [cell for benchmark in benchmarks for cell in time_cells(benchmark, name)]
    return [name, f"{size:.3f}", f"{size / whole:.2f}", *times]


def render(result):
    benchmarks = result["benchmarks"]
    head = ["moments", "bytes per parameter", f"of {REFERENCE}"]
    head += [cell for each in benchmarks for cell in (f"ns per parameter, {threads(each)}", f"of {REFERENCE}")]
    rows = [row(benchmarks, name) for name in FORMATS]
    return ["One rank steps on matrices that are too large for the caches:", "", *table(head, rows)]


def summary(result):
    for benchmark in result["benchmarks"]:
        multiples = {REFERENCE: programs.counter(benchmark, "8bit_ratio")}
        yield f"A step of AdamW, {threads(benchmark)}", "8-bit AdamW", multiples
