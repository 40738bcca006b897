"""The cross entropy of a head by linear_cross_entropy, and with logits that are whole: time and memory."""

from compare import programs
from compare.markdown import table
from compare.moments import shown, threads
from compare.spread import Measured

QUICK = "fp32/threads:1/vocabulary:4096"
OURS, WHOLE = "linear_cross_entropy", "whole logits"


def run(setup):
    return {"benchmarks": programs.run(setup, "linear_cross_entropy", QUICK if setup.quick else "")}


def title(benchmark):
    return f"{benchmark['arguments']['vocabulary']:,}, {benchmark['name']}, {threads(benchmark)}"


def row(benchmark):
    def value(name, digits):
        return shown(programs.counter(benchmark, name), digits)

    times = [value("whole_ms", 1), value("chunks_ms", 1), value("ratio", 2)]
    return [title(benchmark), *times, value("whole_mb", 1), value("chunks_mb", 1), f"{saved(benchmark).median:.2f}"]


def saved(benchmark):
    """Its peak, of that of whole logits."""
    whole, chunks = (programs.counter(benchmark, name).median for name in ("whole_mb", "chunks_mb"))
    return Measured(chunks / whole, 0.0)


def render(result):
    head = ["vocabulary", f"{WHOLE}, ms", f"{OURS}, ms", "of them", f"peak with {WHOLE}, MB", "peak, MB", "of that"]
    explanation = (
        "Forward and backward of 1,024 targets, of width 768. Peaks are of what they take beside inputs and gradients:"
    )
    return [explanation, "", *table(head, [row(each) for each in result["benchmarks"]])]


def summary(result):
    """The largest vocabulary, by one thread in fp32."""
    largest = max(each["arguments"]["vocabulary"] for each in result["benchmarks"])
    for each in result["benchmarks"]:
        if each["name"] == "fp32" and each["arguments"].items() >= {"threads": 1, "vocabulary": largest}.items():
            what = f"Cross entropy of a vocabulary of {title(each)}"
            yield f"{what}, time", OURS, {WHOLE: programs.counter(each, "ratio")}
            yield f"{what}, peak", OURS, {WHOLE: saved(each)}
