#!/usr/bin/env python3
"""Measures the settings of fsdp-plan compare with fsdp-train, and writes docs/strategies_measured.json.

  tools/measure_strategies.py BUILD [--rounds N]   BUILD is the folder of a build, build/release for example

Let nothing else run meanwhile. First it measures this machine with fsdp-plan calibrate, and then each setting in turn,
N rounds of them. The figures of a setting are its median step, but for the first steps of each run, and the memory that
rank 0 held at its peak. tools/write_strategies.py puts them beside the plan.
"""

import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import tempfile

RESULT = pathlib.Path(__file__).resolve().parent.parent / "docs" / "strategies_measured.json"
MODEL = "--layers 6 --width 384 --heads 6 --context 128 --vocabulary 256 --batch 4 --ranks 2"
SETTINGS = {
    "full-shard": "--strategy full-shard",
    "shard-grad-op": "--strategy shard-grad-op",
    "shard-optimizer": "--strategy shard-optimizer",
    "no-shard": "--strategy no-shard",
    "full-shard, units of 2": "--strategy full-shard --layers-per-unit 2",
    "full-shard, units of 6": "--strategy full-shard --layers-per-unit 6",
    "full-shard, recomputed": "--strategy full-shard --activation-checkpoint all",
    "full-shard, bf16": "--strategy full-shard --param-dtype bf16",
    "no-shard, bf16": "--strategy no-shard --param-dtype bf16",
}
STEPS, WARM_UP = 16, 4


def steps_of(program, text, options, folder):
    command = [program, "--data", text, "--run", folder / "run", "--steps", str(STEPS), "--threads", "1", "--no-save",
               *shlex.split(MODEL + " " + options)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    records = map(json.loads, (folder / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [record for record in records if "step_seconds" in record]


def measured(apps, text, rounds, scratch):
    steps = {name: [] for name in SETTINGS}
    for turn in range(rounds):
        for number, (name, options) in enumerate(SETTINGS.items()):
            folder = scratch / f"{turn}-{number}"
            steps[name] += steps_of(apps / "fsdp-train", text, options, folder)[WARM_UP:]
            print(f"round {turn + 1}: {name}", flush=True)
    return [{"setting": name, "options": options, "memory": steps[name][-1]["memory"],
             "step_seconds": round(statistics.median(step["step_seconds"] for step in steps[name]), 4)}
            for name, options in SETTINGS.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    apps = arguments.build.resolve() / "apps"
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        machine = scratch / "machine.toml"
        subprocess.run([apps / "fsdp-plan", "calibrate", "--output", machine], check=True)
        text = scratch / "text.txt"
        text.write_text("All ranks hold a part of the state, and no rank holds it all.\n" * 4000, encoding="utf-8")
        runs = measured(apps, text, arguments.rounds, scratch)
        result = {"model": MODEL, "machine": machine.read_text(encoding="utf-8"), "runs": runs}
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
