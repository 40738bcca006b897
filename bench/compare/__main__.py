"""Compares this library with PyTorch on this machine: training steps, memory and what saves some of it, trainers,
checkpoints, failures, collectives, growth, slow wires and layers divided among ranks.

Everything runs in turns on the same model, weights, tokens and threads; nothing else should run on the machine. All
parts take two hours. Results go to performance.json, performance.md and pictures/ in the output folder, each part with
its commit and date. A part that is not measured now stays there if it was measured on this machine; otherwise the page
is begun anew.
"""

import argparse
import pathlib
import sys
import tempfile

from compare import machine, page, report, trainers
from compare.contestants import BACKENDS
from compare.job import ContestantFailed
from compare.setup import BENCH, Setup, backends_of, missing_packages, trainer_of

USAGE_ERROR = 2
QUIET_LOAD = 0.5
TRAINING_PARTS = {"trainers", "failures"}  # with fsdp-train


class TreeChanged(Exception):
    """It is not known what was measured."""


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
    parser.add_argument(
        "--render", type=pathlib.Path, metavar="FOLDER", help="write its page anew from its figures; measure nothing"
    )
    trainers.add_options(parser)
    return parser.parse_args()


def parts_of(arguments):
    return arguments.part or list(report.PARTS)


def problems_of(arguments):
    if not (arguments.programs / "bench_train_sharded").exists():
        yield f"no bench_train_sharded in {arguments.programs}. Build the target bench_contestants."
    elif not backends_of(arguments.programs, arguments.backends)[0]:
        yield f"none of the backends {' '.join(arguments.backends or BACKENDS)} is in the build {arguments.programs}."
    if missing := missing_packages():
        yield f"Python has no {' and no '.join(missing)}. Run scripts/setup --tests, and use .venv/bin/python."
    if not trainer_of(arguments.programs).exists() and TRAINING_PARTS & set(parts_of(arguments)):
        yield f"no {trainer_of(arguments.programs)}. Build the target fsdp-train."
    if "trainers" in parts_of(arguments):
        yield from trainers.problems_of(arguments)


def begin_page(setup, folder):
    identity = machine.identity(setup)
    for key, value in identity.items():
        setup.say(f"{key}: {value}")
    opened, reasons = page.open_page(folder, identity, setup.quick)
    if reasons:
        setup.say(f"the page in {folder} is begun anew, without its other parts. " + "; ".join(reasons))
    return opened


def measure(setup, name):
    """A part, and the commit that it was measured at."""
    module, title = report.PARTS[name]
    setup.say(title)
    commit = machine.commit()
    result = module.run(setup)
    if machine.commit() != commit:
        raise TreeChanged(f"the files changed while {name} was measured; it is not on the page.")
    return result, commit


def compare(arguments, scratch):
    setup = Setup(arguments.programs.resolve(), scratch, arguments.quick, arguments.backends)
    setup.sources = trainers.sources_of(arguments)
    folder = arguments.output or BENCH.parent / ("build/performance" if arguments.quick else "docs")
    opened = begin_page(setup, folder)
    load = machine.load()
    if load > QUIET_LOAD:
        setup.say(f"the load of this machine is {load:.2f}: figures are worth little while something else runs")
    for name in parts_of(arguments):
        result, commit = measure(setup, name)
        print("\n".join(report.PARTS[name][0].render(result)), flush=True)
        page.add_part(opened, name, result, commit, load)
        report.write(folder, opened)
    setup.say(f"written: {folder / 'performance.md'}")


def render(folder):
    """The page and its plots anew, from its figures."""
    found = page.read(folder)
    if not found or found.get("format") != page.FORMAT:
        print(f"bench/run: {folder} has no {page.FILE} of this format. Measure: bench/run", file=sys.stderr)
        return USAGE_ERROR
    report.write(folder, found)
    return 0


def main():
    arguments = parse()
    if arguments.render:
        return render(arguments.render)
    problems = list(problems_of(arguments))
    for problem in problems:
        print(f"bench/run: {problem}", file=sys.stderr)
    if problems:
        return USAGE_ERROR
    try:
        with tempfile.TemporaryDirectory(prefix="fsdp-bench-") as scratch:
            compare(arguments, pathlib.Path(scratch))
    except (ContestantFailed, TreeChanged) as failure:
        print(f"bench/run: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
