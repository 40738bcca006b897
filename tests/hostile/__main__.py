"""Gives fsdp-train, and fsdp-convert beside it, hostile files and full outputs (outputs.py) and says which of them it
did not answer as it should.

Files are changed at random from whole ones, by a generator with a seed: a failure names its case, and `--only` repeats it.
An answer is as it should be when the program ends by itself within a minute, with exit code 0, 1 or 2 and no signal,
takes no gigabytes, shows no control character, names the file when it refuses it, and then leaves the run as it was.
Some cases are started with standard streams closed, SIGCHLD ignored or signals blocked (processes/state.py).

    python3 -m hostile --program build/dev/apps/fsdp-train --seconds 60
    python3 -m hostile --program build/dev/apps/fsdp-train --only manifest/flip_bit/7
"""

import argparse
import concurrent.futures
import itertools
import pathlib
import random
import sys
import tempfile
import time

from hostile import outputs
from hostile.mutations import MUTATIONS
from hostile.targets import TARGETS
from hostile.verdict import run_case, whole_files


def cases(seed):
    """Names without end: every target with every mutation, then the same with other random numbers."""
    for round_number in itertools.count(seed):
        names = [f"{target}/{mutation}/{round_number}" for target in TARGETS for mutation in MUTATIONS]
        names += outputs.names(round_number)
        random.Random(round_number).shuffle(names)
        yield from names


def run_named(program, whole, name):
    run = outputs.run_case if name.split("/")[0] in outputs.KINDS else run_case
    return run(program, whole, name)


def options():
    parser = argparse.ArgumentParser(prog="python3 -m hostile", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=pathlib.Path, help="fsdp-train")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--seconds", type=float, default=60, help="after which no case begins")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time")
    parser.add_argument("--only", metavar="CASE", help="this case alone, with what it printed")
    return parser.parse_args()


def main():
    given = options()
    program = given.program.resolve()
    with tempfile.TemporaryDirectory(prefix="fsdp-hostile-") as folder:
        whole = whole_files(program, pathlib.Path(folder))
        names = iter([given.only]) if given.only else cases(given.seed)
        end = time.monotonic() + given.seconds
        done, failures = 0, []
        with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
            running = set()
            while True:
                while len(running) < given.jobs and time.monotonic() < end and (name := next(names, None)):
                    running.add(pool.submit(run_named, program, whole, name))
                if not running:
                    break
                finished, running = concurrent.futures.wait(running, return_when="FIRST_COMPLETED")
                for one in finished:
                    done += 1
                    case = one.result()
                    if given.only:
                        print(case.output)
                    if case.problems:
                        failures.append(case)
                        print(f"{case.name}: {'; '.join(case.problems)}\n  {case.command}\n{case.output}", flush=True)
    print(f"{done} hostile inputs, {len(failures)} not answered as they should be")
    return 1 if failures or done == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
