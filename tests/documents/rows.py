"""Every table of a page is one: it begins with a header and a line of dashes, and its rows have the header's cells."""

import re

from documents import pages

DASHES = re.compile(r"^\|(?: ?:?-+:? ?\|)+$")


def cells(row):
    """How many cells a row has. In code a bar ends no cell where it is escaped, as everywhere."""
    return len(re.findall(r"(?<!\\)\|", row)) - 1


def problems():
    for page in pages.pages():
        yield from problems_of(page, pages.prose(page))


def problems_of(page, lines):
    before, header = (0, ""), 0  # the line above; the cells of the table that it belongs to, 0: of none
    lines = list(lines)
    for index, (number, line) in enumerate(lines):
        if not line.startswith("|"):
            header = 0
            continue
        if before[0] != number - 1 or not header:
            below = lines[index + 1][1] if index + 1 < len(lines) else ""
            if not DASHES.match(below):
                yield f"{page}:{number}: a row of no table: the line above is no row, and no line of dashes follows"
            header = cells(line)
        elif cells(line) != header:
            yield f"{page}:{number}: {cells(line)} cells, and the table has {header}"
        before = (number, line)
