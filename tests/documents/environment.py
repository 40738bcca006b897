"""docs/environment.md lists the environment variables that the library and the programs read, and no others."""

import re

from documents import pages

PAGE = "docs/environment.md"
ALL_READ = ["Variables to set", "Variables that launchers set"]
OF_TESTS = "Variables of the tests"
NAME = re.compile(r"`([A-Z][A-Z0-9]*[A-Za-z0-9_]*)`")
READS = re.compile(r"getenv\(|\bos\.environ\b|\benvironment\b")
LITERAL = re.compile(r'"([A-Z]{2,}[0-9]*(?:_\w+)?|[A-Z]+_\w+)"')
# Names of launchers beside those of their variables.
NO_VARIABLES = {"SLURM"}


def listed():
    """Names by section: those in backticks in the cells that name variables."""
    found, section = {}, ""
    for _, line in pages.prose(PAGE):
        if line.startswith("## "):
            section = line[3:]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        named = next((cell for cell in cells if cell.startswith("`")), "") if line.startswith("| ") else ""
        found.setdefault(section, set()).update(NAME.findall(named))
    return found


def read_by_sources():
    found = {}
    for room in ("src", "apps"):
        for file in sorted((pages.ROOT / room).rglob("*")):
            if file.suffix not in (".cpp", ".h", ".py"):
                continue
            text = file.read_text(encoding="utf-8")
            if READS.search(text):
                for name in set(LITERAL.findall(text)) - NO_VARIABLES:
                    found.setdefault(name, str(file.relative_to(pages.ROOT)))
    return found


def problems():
    names, sources = listed(), read_by_sources()
    on_page = set().union(*(names.get(section, set()) for section in ALL_READ))
    for name in sorted(set(sources) - on_page):
        yield f"{PAGE}: does not list {name}, which {sources[name]} reads"
    for name in sorted(on_page - set(sources)):
        yield f"{PAGE}: lists {name}, which no source reads"
    tests = "".join(file.read_text(encoding="utf-8") for file in (pages.ROOT / "tests").rglob("*.cpp"))
    tests += "".join(file.read_text(encoding="utf-8") for file in (pages.ROOT / "tests").rglob("*.h"))
    for name in sorted(names.get(OF_TESTS, set())):
        if f'"{name}"' not in tests:
            yield f"{PAGE}: lists {name}, which no test reads"
    if len(on_page) < 40:
        yield f"{PAGE}: only {len(on_page)} variables were found: is the pattern of rows out of date?"
