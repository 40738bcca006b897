#!/usr/bin/env python3
"""Writes the outputs in docs/scaling.md: those of fsdp-plan scaling.

  tools/write_scaling.py BUILD           writes them; BUILD is the folder of a build, build/dev for example
  tools/write_scaling.py BUILD --check   fails where the page has others

An output is a block of text under <!-- output: ARGUMENTS -->. The text around it is written by hand.
"""

import re
import shlex
import subprocess

import written_page

OUTPUT = re.compile(r"<!-- output: (?P<arguments>.*?) -->\n```text\n.*?```\n", re.DOTALL)


def written(found, program):
    command = [program, *shlex.split(found["arguments"])]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    return f"<!-- output: {found['arguments']} -->\n```text\n{output}```\n"


def text_of(build, page):
    program = build / "apps" / "fsdp-plan"
    return OUTPUT.sub(lambda found: written(found, program), page)


def main():
    written_page.write("scaling.md", __doc__, text_of, "its outputs are not those of fsdp-plan.")


if __name__ == "__main__":
    main()
