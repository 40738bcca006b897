#!/usr/bin/env python3
"""Writes the table of docs/strategies.md that has fsdp-plan beside runs: docs/strategies_measured.json.

  tools/write_strategies.py BUILD           writes it; BUILD is the folder of a build, build/dev for example
  tools/write_strategies.py BUILD --check   fails where the page has another

The table stands between <!-- table: measured --> and <!-- end -->. tools/measure_strategies.py measures the runs.
"""

import json
import pathlib
import re
import shlex
import subprocess
import tempfile

import written_page

TABLE = re.compile(r"(<!-- table: measured -->\n).*?(<!-- end -->)", re.DOTALL)
STATE = {"parameters": "parameters", "gradients": "gradients", "optimizer": "optimizer",
         "full parameters": "full_parameters", "full gradients": "full_gradients"}  # fmt: skip
MEGA = 1e6


def state_of(memory, names):
    return sum(memory[name] for name in names)


def row(program, machine, model, run):
    command = [program, "gpt2", *shlex.split(model + " " + run["options"]), "--hardware", machine, "--json"]
    plan = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
    memory, step = plan["memory"], plan["time"]["step"]
    found, seconds = run["memory"], run["step_seconds"]
    cells = [run["setting"],
             f"{state_of(memory, STATE.values()) / MEGA:.1f} MB", f"{state_of(found, STATE) / MEGA:.1f} MB",
             f"{memory['activations'] / MEGA:.1f} MB", f"{found['activations'] / MEGA:.1f} MB",
             f"{plan['communication']['within_hosts'] / MEGA:.1f} MB",
             f"{step * 1000:.0f} ms", f"{seconds * 1000:.0f} ms", f"{(step / seconds - 1) * 100:+.1f} %"]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def table(program, measured):
    lines = ["| setting | state and buffers, planned | measured | activations, planned | measured | received in a step | "
             "a step, planned | measured | error |",
             "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        machine = pathlib.Path(folder) / "machine.toml"
        machine.write_text(measured["machine"], encoding="utf-8")
        lines += [row(program, machine, measured["model"], run) for run in measured["runs"]]
    return "\n".join(lines) + "\n"


def text_of(build, page):
    measured = json.loads((written_page.DOCS / "strategies_measured.json").read_text(encoding="utf-8"))
    text = table(build / "apps" / "fsdp-plan", measured)
    return TABLE.sub(lambda found: found[1] + text + found[2], page)


def main():
    written_page.write("strategies.md", __doc__, text_of, "its table is not that of fsdp-plan.")


if __name__ == "__main__":
    main()
