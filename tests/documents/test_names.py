"""Every test that a page names exists, and every bug of docs/bugs.md has a link and a test."""

import re

from documents import pages

DEFINED = re.compile(r"\bTEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\s*\)")
NAMED = re.compile(r"`([A-Z]\w+)\.([A-Z]\w+|\*)`")
# What looks like a test's name in these pages, and is none.
NO_TESTS = {"CMakeLists.txt"}
BUGS = "docs/bugs.md"


def defined():
    result = set()
    for file in pages.ROOT.glob("tests/**/*.cpp"):
        result.update(DEFINED.findall(file.read_text(encoding="utf-8")))
    return result


def problems():
    names = defined()
    suites = {suite for suite, _ in names}
    counted = 0
    for page in pages.pages():
        for number, line in pages.prose(page):
            for suite, test in NAMED.findall(line):
                counted += 1
                if f"{suite}.{test}" in NO_TESTS:
                    continue
                if suite not in suites if test == "*" else (suite, test) not in names:
                    yield f"{page}:{number}: there is no test {suite}.{test}"
    if counted < 100:
        yield f"only {counted} names of tests were found in the pages: is the pattern of names out of date?"
    yield from bugs_without()


def bugs_without():
    rows = [(number, line) for number, line in pages.prose(BUGS) if line.startswith("| ") and "| test |" not in line]
    for number, line in rows:
        if "https://github.com/" not in line.split(" | ")[0] or not NAMED.search(line.split(" | ")[-1]):
            yield f"{BUGS}:{number}: a bug has a link in its first column and a test in its last"
    if len(rows) < 15:
        yield f"{BUGS}: only {len(rows)} bugs were found: is the pattern of rows out of date?"
