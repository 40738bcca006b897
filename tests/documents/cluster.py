"""Walks through docs/cluster.md on two hosts with two ranks each.

A comment above a block says where it runs: on one host, on each host, or as a batch script. Open MPI is the real one,
and reaches the second host without ssh; srun is a stand-in that sets SLURM's variables.
"""

import json
import os
import pathlib
import signal
import subprocess
import tempfile

from documents import commands, hosts, pages, tables

PAGE = "docs/cluster.md"
STAND_INS = pathlib.Path(__file__).parent / "stand_ins"
RANKS = 4
LIMIT = 240  # seconds that only a hang exceeds
PLACES = ("on one host", "on each host", "batch script")


def environment(folder, build, two_hosts):
    own = commands.environment(folder, build)
    return own | {
        "PATH": f"{STAND_INS}:{own['PATH']}",
        "FSDP_DOCUMENT_HOSTS": two_hosts.variable(),
        "OMPI_MCA_plm_rsh_agent": str(STAND_INS / "rsh"),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "HWLOC_COMPONENTS": "-gl",
    }


def scripts_of(block):
    """The host's number and the script, for each host that the block runs on."""
    script = commands.script_of(block)
    if block.comment == "on each host":
        return [(number, script.replace("host=0", f"host={number}")) for number in range(len(hosts.NAMES))]
    return [(0, script)]


def start(number, script, folder, two_hosts, variables):
    return subprocess.Popen(
        [*two_hosts.enter(number, folder), "bash", "-eu", "-o", "pipefail", "-c", script],
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def run(block, folder, two_hosts, variables):
    started = [start(number, script, folder, two_hosts, variables) for number, script in scripts_of(block)]
    outputs = []
    for process in started:
        try:
            outputs.append(process.communicate(timeout=LIMIT)[0])
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            outputs.append(process.communicate()[0] + f"\n(killed after {LIMIT} s)")
    if any(process.returncode != 0 for process in started):
        codes = [process.returncode for process in started]
        return f"{block.place}: exit codes {codes} of\n{block.text}\n" + "\n---\n".join(o[-4000:] for o in outputs)
    return None


def losses(run_folder):
    records = map(json.loads, (run_folder / "metrics.jsonl").read_text().splitlines())
    return [(record["step"], record["loss"]) for record in records if "loss" in record]


def differing_runs(folder):
    """Every way to start the same ranks has to print the same losses."""
    runs = {path.parent.name: losses(path.parent) for path in sorted(folder.glob("runs/*/metrics.jsonl"))}
    if len(runs) < 3:
        yield f"{PAGE}: only these runs were made: {', '.join(runs) or 'none'}"
    for run in runs:
        shards = len(list(folder.glob(f"runs/{run}/step-*/shard-*-of-*{RANKS}.safetensors")))
        if shards != RANKS:
            yield f"{PAGE}: {run} left {shards} shards of {RANKS}"
    if len({str(values) for values in runs.values()}) > 1:
        yield f"{PAGE}: the ways to start give other losses: {runs}"


def problems(build):
    if hosts.lacking():
        commands.skip(hosts.lacking())
    with tempfile.TemporaryDirectory(prefix="fsdp-documents-") as name:
        folder = pathlib.Path(name)
        commands.make_folder(folder, build)
        with hosts.Hosts(folder) as two_hosts:
            yield from walk(folder, two_hosts, environment(folder, build, two_hosts))


def walk(folder, two_hosts, variables):
    for block in pages.blocks(PAGE):
        if block.language not in pages.SHELL or tables.is_left_out(block):
            continue
        if block.comment not in PLACES:
            yield f"{block.place}: the comment above has to say where this runs: {', '.join(PLACES)}"
            return
        if "mpirun" in block.text:
            commands.require("mpirun", "openmpi-bin")
        problem = run(block, folder, two_hosts, variables)
        if problem:
            yield problem
            return
    yield from differing_runs(folder)

