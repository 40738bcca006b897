#!/usr/bin/env python3
"""Turns the plain comments of a header into those that Doxygen reads: the INPUT_FILTER of Doxyfile.

The headers have `//` comments alone. Here a comment above a declaration becomes `///`, one behind a member `///<`, and
the first one of a file the file's description. Lines of a comment that are indented are an example, set as code. Every
line keeps its number, so that a warning names the line of the header. Constructors and assignments that move or copy
are left out: there is nothing to say about them. A program of examples/ becomes an example with its first comment;
Doxygen links it to all that it uses.
"""

import pathlib
import re
import sys

COMMENT = re.compile(r"^(\s*)//(.*)$")
BEHIND = re.compile(r"^(.*[;,\w)}])\s+// (.*)$")  # a declaration, and a comment behind it
NO_DECLARATION = re.compile(r"^\s*(}|#)")
MOVES = re.compile(r"^\s*(\w+& operator=|(\w+))\((const )?\w+&&?\)( noexcept)?( = \w+)?;$")


def plain(text):
    """The text without a meaning for Doxygen or Markdown; `quoted` parts stay as they are."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([<>@#\\%&*])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def documented(text):
    """One line of a comment, without its slashes."""
    is_example = text.startswith("   ")
    return f"///    {text}" if is_example else f"///{plain(text)}"


def split_head(lines):
    """The first comment of the file, and what follows it."""
    end = next((i for i, line in enumerate(lines) if not COMMENT.match(line)), len(lines))
    return lines[:end], lines[end:]


def filtered(lines):
    head, rest = split_head(lines)
    if head and rest and rest[0].startswith("#pragma once"):  # its line makes room for the one that says \file
        yield r"/// \file"
        rest = rest[1:]
    yield from (documented(COMMENT.match(line)[2]) for line in head)
    for line in rest:
        comment, behind = COMMENT.match(line), BEHIND.match(line)
        if MOVES.match(line):
            yield ""
        elif comment:
            yield comment[1] + documented(comment[2])
        elif behind and not NO_DECLARATION.match(line):
            yield f"{behind[1]}  ///< {plain(behind[2])}"
        else:
            yield line


def example(name, lines):
    head, _ = split_head(lines)
    yield rf"/// \example {name}"
    yield from (documented(COMMENT.match(line)[2]) for line in head)


if __name__ == "__main__":
    path = pathlib.Path(sys.argv[1])
    lines = path.read_text(encoding="utf-8").splitlines()
    print("\n".join(example(path.name, lines) if path.suffix == ".cpp" else filtered(lines)))
