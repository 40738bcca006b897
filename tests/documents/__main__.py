"""Checks of the pages of this repository: python3 -m documents CHECK, in tests/.

  links           links between pages lead somewhere
  test_names      every test that a page names exists
  figures         figures that a page repeats of measurements are still there
  rows            every table of a page is one
  quotations      what a page quotes of a file stands in it
  environment     docs/environment.md lists the environment variables that are read
  words           tools/check_words.py finds hard words, and no new ones here
  every_command   every command of a page is run by a test, or a table says why not
  drawings        pictures of tools/draw_*.py are those that the commands draw now:   --build FOLDER is a build
  simulator       tables of docs/simulator.md are those of the simulation: --build FOLDER has the program
  scaling         outputs in docs/scaling.md are those of fsdp-plan:   --build FOLDER has the program
  arithmetic      tables of docs/arithmetic.md are those of fsdp-plan:   --build FOLDER has the program
  strategies      the table of docs/strategies.md is that of fsdp-plan: --build FOLDER has the program
  pictures        pictures of terminals show what the program prints:   --build FOLDER has the programs
  flags           every flag of fsdp-train that a page names exists:   --build FOLDER has the program
  list            the pages whose commands are run
  commands PAGE   runs them:   --build FOLDER has the programs
  cluster         runs the commands of docs/cluster.md on two hosts
"""

import argparse
import pathlib
import sys

from documents import cluster, commands, drawings, environment, every_command, figures, flags, links, pictures
from documents import quotations, rows, tables, test_names, words
from documents.written import Written

CHECKS = {
    "links": links,
    "test_names": test_names,
    "figures": figures,
    "quotations": quotations,
    "rows": rows,
    "environment": environment,
    "words": words,
    "every_command": every_command,
}

# With the folder of a build.
BUILT = {"drawings": drawings, "flags": flags, "pictures": pictures} | {
    name: Written(f"write_{name}.py") for name in ("arithmetic", "scaling", "simulator", "strategies")
}


def report(problems):
    problems = list(problems)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=[*CHECKS, *BUILT, "list", "commands", "cluster"])
    parser.add_argument("page", nargs="?")
    parser.add_argument("--build", type=pathlib.Path, help="the folder of a build, with apps/ and examples/")
    arguments = parser.parse_args()
    if arguments.check in CHECKS:
        return report(CHECKS[arguments.check].problems())
    if arguments.check == "list":
        print("\n".join(tables.RUN))
        return 0
    if arguments.check in BUILT:
        return report(BUILT[arguments.check].problems(arguments.build.resolve()))
    if arguments.check == "commands":
        return report(commands.problems(arguments.page, arguments.build.resolve()))
    return report(cluster.problems(arguments.build.resolve()))


if __name__ == "__main__":
    sys.exit(main())
