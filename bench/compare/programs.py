"""Benchmarks that are programs of their own, made with Google Benchmark: started, and their counters read."""

import json
import re
import subprocess

from compare.job import ContestantFailed
from compare.spread import Measured


def benchmarks_in(text):
    """Of a report in JSON: for each benchmark its name, its arguments and its counters."""
    found = []
    for benchmark in json.loads(text)["benchmarks"]:
        name, *words = benchmark["run_name"].split("/")
        arguments = {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", "/".join(words))}
        found.append({"name": name, "arguments": arguments, "counters": counters_of(benchmark)})
    return found


def counters_of(benchmark):
    """All numbers that it reports; its own names are of no harm."""
    return {key: value for key, value in benchmark.items() if isinstance(value, float)}


def run(setup, name, only=""):
    """All benchmarks of the program whose names match `only`."""
    setup.say(f"  bench_{name}")
    report = setup.scratch / f"{name}.json"
    command = [setup.programs.parent / f"bench_{name}", f"--benchmark_out={report}", f"--benchmark_filter={only}"]
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if ended.returncode != 0:
        raise ContestantFailed(f"bench_{name} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return benchmarks_in(report.read_text())


def counter(benchmark, name):
    """With the spread that the program tells of it; none for what it counts instead of measuring."""
    counters = benchmark["counters"]
    return Measured(counters[name], counters.get(f"{name}_spread", 0.0))
