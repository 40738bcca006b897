"""Compares this library with PyTorch on this machine: collectives, training steps, memory, growth and slow wires.

Everything runs in turns on the same model, weights, tokens and threads; nothing else should run on the machine. All
parts take about two hours. Results go to performance.json, performance.md and pictures/ in the output folder; a
part that is not measured now stays there as it was.
"""

import argparse
import pathlib
import sys
import tempfile

from compare import machine, report
from compare.contestants import BACKENDS
from compare.job import ContestantFailed
from compare.setup import BENCH, Setup, backends_of, missing_packages

USAGE_ERROR = 2


def parse():
    parser = argparse.ArgumentParser(
        prog="bench/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--part", action="append", choices=report.PARTS, help="measure this part alone; may be repeated [all parts]"
    )
    parser.add_argument("--quick", action="store_true", help="tiny models and few steps: shows that all parts work")
    parser.add_argument(
        "--backends", nargs="+", metavar="NAME", help=f"of this library [{' '.join(BACKENDS)}, as built]"
    )
    parser.add_argument(
        "--output", type=pathlib.Path, help="folder for the results [docs; build/performance when --quick]"
    )
    parser.add_argument(
        "--programs",
        type=pathlib.Path,
        default=BENCH.parent / "build/release/bench/contestants",
        help="folder of the C++ contestants [build/release/bench/contestants]",
    )
    return parser.parse_args()


def problems_of(arguments):
    if not (arguments.programs / "bench_train_sharded").exists():
        yield f"no bench_train_sharded in {arguments.programs}. Build the target bench_contestants."
    elif not backends_of(arguments.programs, arguments.backends)[0]:
        yield f"none of the backends {' '.join(arguments.backends or BACKENDS)} is in the build {arguments.programs}."
    if missing := missing_packages():
        yield f"Python has no {' and no '.join(missing)}. Run scripts/setup, and use .venv/bin/python."


def compare(arguments, scratch):
    setup = Setup(arguments.programs.resolve(), scratch, arguments.quick, arguments.backends)
    folder = arguments.output or BENCH.parent / ("build/performance" if arguments.quick else "docs")
    results = report.load(folder)
    described = machine.describe(setup)
    for key, value in described.items():
        setup.say(f"{key}: {value}")
    for name in arguments.part or report.PARTS:
        module, title = report.PARTS[name]
        setup.say(title)
        result = module.run(setup)
        print("\n".join(module.render(result)), flush=True)
        results[name] = {"machine": described, "quick": arguments.quick, "result": result}
        report.write(folder, results)
    setup.say(f"written: {folder / 'performance.md'}")


def main():
    arguments = parse()
    problems = list(problems_of(arguments))
    for problem in problems:
        print(f"bench/run: {problem}", file=sys.stderr)
    if problems:
        return USAGE_ERROR
    try:
        with tempfile.TemporaryDirectory(prefix="fsdp-bench-") as scratch:
            compare(arguments, pathlib.Path(scratch))
    except ContestantFailed as failure:
        print(f"bench/run: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
