"""Checks this build on this machine's GPU: tests, bits and speed, as one table and as JSON. Needs Python's torch, a GPU
and no network, and ends within five minutes.

    ./run                        # all parts; results.json lies beside the outputs, in a folder that it names
    ./run --only bits --only 1.3 # the parts with these words in their names
"""

import argparse
import array
import importlib.util
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from check import page, runner
from check.parts import all_parts

FOLDER = pathlib.Path(__file__).resolve().parents[1]


def main():
    parser = argparse.ArgumentParser(prog="run", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=280, help="time for all parts together (280)")
    parser.add_argument("--only", action="append", default=[], metavar="WORDS", help="parts with these words in their names")
    parser.add_argument("--output", type=pathlib.Path, help="a folder for results.json and the parts' outputs")
    options = parser.parse_args()
    output = options.output or pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-"))
    output.mkdir(parents=True, exist_ok=True)
    variables = variables_of_programs()
    machine = describe_machine()
    print(*(f"{name}: {value}" for name, value in machine.items()), sep="\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as scratch:
        scratch = pathlib.Path(scratch)
        write_tokens(scratch / "tokens.bin")
        parts = [part for part in all_parts(FOLDER, scratch, variables)
                 if not options.only or any(words in part.name for words in options.only)]
        results = runner.run(parts, options.seconds, output, lambda text: print(text, file=sys.stderr, flush=True))
    (output / "results.json").write_text(page.as_json(results, machine))
    print(page.table(results))
    print(f"\n{output / 'results.json'}")
    sys.exit(any(result.state != "ok" for result in results))


def variables_of_programs():
    """The programs find LibTorch's libraries, and those packed with them, by these. PyTorch finds its own."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit(f"run: {sys.executable} has no torch, whose libraries the programs need.")
    torch = pathlib.Path(spec.origin).parent
    places = [FOLDER / "lib", torch / "lib", *sorted(torch.parent.glob("nvidia/*/lib"))]
    paths = [*map(str, places), os.environ.get("LD_LIBRARY_PATH", "")]
    return {"LD_LIBRARY_PATH": ":".join(filter(None, paths))}


def describe_machine():
    code = "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.nccl.version(), sep='|')"
    versions = output_of([sys.executable, "-c", code]).split("|")
    gpu = output_of(["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"])
    built = (FOLDER / "built-for.txt").read_text().strip() if (FOLDER / "built-for.txt").exists() else "?"
    return {"GPU": gpu or "none found", "torch, CUDA, NCCL": ", ".join(versions), "built for": built}


def output_of(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def write_tokens(path):
    path.write_bytes(array.array("H", random.Random(1).choices(range(50304), k=1_000_000)))


if __name__ == "__main__":
    main()
