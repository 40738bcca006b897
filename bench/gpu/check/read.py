"""Reads figures from the programs' output. Each function raises ValueError if the figures are missing."""

import json
import re
import statistics


def gtest(output):
    """Reads the summary of a GoogleTest program."""
    passed = re.search(r"\[  PASSED  \] (\d+) test", output)
    if not passed:
        raise ValueError("no summary of the tests")
    skipped = re.search(r"\[  SKIPPED \] (\d+) test", output)
    failed = sorted(set(re.findall(r"\[  FAILED  \] (\w+\.\w+)", output)))
    found = {"passed": int(passed[1]), "skipped": int(skipped[1]) if skipped else 0, "failed": len(failed)}
    return {**found, "names": " ".join(failed)} if failed else found


def kinds(output):
    """Reads the result of each kind of model from bench_gpu_models."""
    found = dict(re.findall(r"^(?:\[\w+ ?\d+\] ?)?RESULT ([^:{]+): (.*)$", output, re.M))
    if not found:
        raise ValueError("no kind of model was compared")
    return found


def step(output):
    """Reads the line of JSON that bench_gpu_speed and peer.py print."""
    found = re.search(r"RESULT (\{.*\})$", output, re.M)
    if not found:
        raise ValueError("no line with the figures")
    return json.loads(found[1])


WARM_UP = 5  # steps of fsdp-train that are not counted


def trainer(metrics):
    """Returns a function that reads the records of fsdp-train's steps (docs/metrics.md) after its end."""
    parts = {"step_ms": "step_seconds", "forward_backward_ms": "forward_backward_seconds",
             "optimizer_ms": "optimizer_seconds", "data_ms": "data_seconds", "other_ms": "other_seconds"}

    def read(_):
        steps = [record for record in map(json.loads, metrics.read_text().splitlines()) if "loss" in record][WARM_UP:]
        if not steps:
            raise ValueError(f"{metrics} has no steps after the first {WARM_UP}")
        return {name: 1000 * statistics.median(step[key] for step in steps) for name, key in parts.items()}

    return read
