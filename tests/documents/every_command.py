"""Every command of a page is run by a test, or a table says why it is not; no table has an entry for nothing, and .ci/run
has the lines that a table says it has."""

import re

from documents import pages, tables

# A line of a block without a language that is a command all the same.
COMMAND = re.compile(
    r"^(\$ |scripts/|tools/|bench/run|build/|cmake |ctest |git |FSDP_\w+=|export |program=|"
    r"(fsdp-train|fsdp-plan|torchrun|mpirun|srun|sbatch|python3|jq|tensorboard)( |$))"
)
CLUSTER = "docs/cluster.md"


def shell_blocks():
    for page in [*pages.pages(), *pages.recipes()]:
        yield from (block for block in pages.blocks(page) if block.language in pages.SHELL)


def problems():
    yield from unmarked()
    yield from missing_in_ci()
    used = set()
    for block in shell_blocks():
        for table in (tables.ELSEWHERE, tables.IN_CI, tables.EXIT_CODES, tables.BEFORE, tables.LEAVES):
            used.update((id(table), block.page, part) for part, _ in tables.of(table, block))
        if block.page not in tables.RUN and block.page != CLUSTER and not tables.is_left_out(block):
            yield f"{block.place}: no test runs this; add its page to RUN, or a reason to ELSEWHERE, in tables.py"
    for name in ("ELSEWHERE", "IN_CI", "EXIT_CODES", "BEFORE", "LEAVES"):
        table = getattr(tables, name)
        for page, part in table:
            if (id(table), page, part) not in used:
                yield f"tests/documents/tables.py: {name} names '{part}' in {page}, where no command has it"
    yield from stale_replacements()


def missing_in_ci():
    lines = pages.read(".ci/run").split("\n")
    for (page, part), command in tables.IN_CI.items():
        if not any(line.startswith(command) for line in lines):
            yield f"tests/documents/tables.py: IN_CI names '{command}' for '{part}' in {page}, and .ci/run has it not"


def unmarked():
    for page in pages.pages():
        for block in pages.blocks(page):
            lines = [] if block.language else block.lines
            if any(COMMAND.match(line) for line in lines):
                yield f"{block.place}: has commands; begin it with ```sh, or ```console where output follows them"


def stale_replacements():
    for page, replacements in tables.INSTEAD.items():
        commands = "\n".join(block.commands() + "\n" for block in pages.blocks(page) if block.language in pages.SHELL)
        for written in replacements:
            if written not in commands:
                yield f"tests/documents/tables.py: INSTEAD names '{written}' in {page}, where no command has it"
