"""Builds the library, the programs and the tests against versions of LibTorch, and runs the tests on this CPU.

One step that fails does not hide the others: it is a cell of the table.
"""

import argparse
import pathlib
import re
import subprocess
import sys

from libtorch import wheels

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = ("LibTorch", "library", "programs", "tests compiled", "tests run", "failed")
TARGETS = {"library": ["fsdp"], "programs": ["fsdp-train", "fsdp-convert", "fsdp-plan", "fsdp-calibrate"], "tests compiled": ["all"]}


def main():
    parser = argparse.ArgumentParser(prog="scripts/matrix", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=wheels.VERSIONS, metavar="VERSION",
                        help=f"versions of LibTorch ({' '.join(wheels.VERSIONS)})")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/matrix",
                        help="folder for downloads and builds, 6 GB per version (build/matrix)")
    parser.add_argument("--jobs", type=int, default=2, help="compilations at once (2)")
    parser.add_argument("--until", choices=[*TARGETS, "tests run"], default="tests run",
                        help="the last step to take, for example: library")
    parser.add_argument("--tests", metavar="REGEX", help="run only tests whose names match")
    options = parser.parse_args()
    rows = []
    for version in options.versions:
        rows.append(try_version(version, options))
        print(table(rows), flush=True)
    sys.exit(any(cell.startswith("no") or row[-1] not in ("", "0") for row in rows for cell in row))


def try_version(version, options):
    """A row of the table. The output of each step is in a file of its own beside the build."""
    build = options.folder.absolute() / f"build-{version}"
    row = [version] + [""] * (len(COLUMNS) - 1)
    try:
        place = wheels.fetch(version, options.folder.absolute())
    except subprocess.CalledProcessError:
        row[1] = "no: not fetched"
        return row
    build.mkdir(parents=True, exist_ok=True)
    if not run(build, "configure", ["cmake", "--preset", "dev", "-B", build, f"-DCMAKE_PREFIX_PATH={place}/torch/share/cmake"]):
        row[1] = f"no: {build}/configure.txt"
        return row
    for column, (name, targets) in enumerate(TARGETS.items(), 1):
        command = ["cmake", "--build", build, "-j", options.jobs, "--target", *targets]
        row[column] = "yes" if run(build, name, [*command, "--", "-k", "0"]) else f"no: {build}/{file_of(name)}"
        if name == options.until:
            return row
    select = ["-R", options.tests] if options.tests else []
    run(build, "tests run", ["ctest", "--test-dir", build, "-j", options.jobs, "--output-on-failure", *select])
    row[-2:] = counts((build / file_of("tests run")).read_text())
    return row


def file_of(step):
    return step.replace(" ", "-") + ".txt"


def run(build, step, command):
    print(f"{build.name}: {step}", file=sys.stderr, flush=True)
    with open(build / file_of(step), "w") as output:
        return subprocess.run([str(word) for word in command], cwd=ROOT, stdout=output, stderr=output).returncode == 0


def counts(output):
    """The numbers of suites that ran and that failed, from ctest's output. A suite is one test of ctest."""
    found = re.search(r"(\d+) tests failed out of (\d+)", output)
    return [found[2], found[1]] if found else ["no: ctest did not end", ""]


def table(rows):
    widths = [max(len(row[i]) for row in (COLUMNS, *rows)) for i in range(len(COLUMNS))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip(" ") for row in (COLUMNS, *rows)]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
