"""Tries for long what tests try in short: that a run survives whatever happens while it saves.

    scripts/soak                                   all parts, an hour together
    scripts/soak --part kills --minutes 30
    scripts/soak --part kills --only 17            one run of fsdp-train again

Each part says how much it tried; the exit code is 1 where something was wrong.
"""

import argparse
import os
import pathlib
import sys
import time

from soak.cases import Lacking, say
from soak.parts import PARTS

SKIPPED = 77  # ctest: this test was skipped


def options():
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append", help="this part; given often, these; else all")
    parser.add_argument("--minutes", type=float, default=60, help="of all parts together (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="of the first case (default: 1)")
    parser.add_argument("--jobs", type=int, default=2, help="runs of fsdp-train at a time (default: 2)")
    parser.add_argument("--cases", type=int, help="runs of fsdp-train in a part, instead of the time")
    parser.add_argument("--only", type=int, metavar="CASE", help="this run of fsdp-train alone")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the folder that the programs were built in")
    given = parser.parse_args()
    given.build = given.build.resolve()
    given.part = given.part or list(PARTS)
    return given


def main():
    given = options()
    results = {}
    for name in given.part:
        counted, part = PARTS[name]
        print(f"{name}: {counted}", flush=True)
        begin = time.monotonic()
        try:
            results[name] = (*part(given, given.minutes * 60 / len(given.part)), time.monotonic() - begin)
        except Lacking as lacking:
            say(f"not tried: {lacking}")
    print()
    for name, (tried, failed, seconds) in results.items():
        print(f"{name:13} {tried:7,} {PARTS[name][0]}, {failed} failed, in {seconds / 60:.1f} minutes")
    if any(failed or not tried for tried, failed, _ in results.values()):
        return 1
    if len(results) < len(given.part) and os.environ.get("FSDP_TEST_REQUIRE_ALL"):
        return 1
    return 0 if results else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
