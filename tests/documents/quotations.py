"""What a page quotes of a file stands in it: blocks under a comment that names the file, <!-- examples/minimal.cpp -->.

Under <!-- diff BEFORE AFTER --> stands the difference of two files, with all lines.
Of the files in WHOLE, every line that says something is quoted, in the file's order.
"""

import difflib
import textwrap

from documents import pages

WHOLE = {"docs/side_by_side.md": "examples/side_by_side"}


def says_something(line):
    return line.strip() not in ("", "}") and not line.strip().startswith(("//", "# "))


def find(quoted, lines, begin):
    """Where the quoted lines stand in the file's lines, at `begin` or later; None where they do not."""
    for start in range(begin, len(lines) - len(quoted) + 1):
        if textwrap.dedent("\n".join(lines[start : start + len(quoted)])).split("\n") == quoted:
            return start
    return None


def problem_of_diff(block):
    before, after = (pages.read(name).splitlines() for name in block.comment.split()[1:])
    whole = max(len(before), len(after))
    difference = list(difflib.unified_diff(before, after, n=whole, lineterm=""))[3:]  # without file names and place
    if difference != block.lines:
        yield f"{block.place}: this is not the {block.comment}, which is\n" + "\n".join(difference)


def problems():
    for page in pages.pages():
        yield from problems_of(page)


def problems_of(page):
    quoted_until = {}  # file: the line after the last one that was quoted
    unquoted = {}
    for block in pages.blocks(page):
        if block.comment.startswith("diff "):
            yield from problem_of_diff(block)
        if not block.comment.startswith("examples/"):
            continue
        lines = pages.read(block.comment).split("\n")
        start = find(block.lines, lines, quoted_until.get(block.comment, 0))
        if start is None:
            yield f"{block.place}: this does not stand in {block.comment}, or stands before what was quoted last"
            continue
        skipped = lines[quoted_until.get(block.comment, 0) : start]
        unquoted.setdefault(block.comment, []).extend(filter(says_something, skipped))
        quoted_until[block.comment] = start + len(block.lines)
    if page not in WHOLE:
        return
    for file in sorted((pages.ROOT / WHOLE[page]).iterdir()):
        name = str(file.relative_to(pages.ROOT))
        rest = filter(says_something, pages.read(name).split("\n")[quoted_until.get(name, 0) :])
        for line in [*unquoted.get(name, []), *rest]:
            yield f"{page}: does not quote this line of {name}: {line.strip()}"
