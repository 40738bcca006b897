"""The terminals in docs/pictures show lines that the program still prints, with other numbers.

tools/make_pictures makes them. This check runs the same commands with fewer steps and compares the kinds of lines.
"""

import html
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import tempfile

from documents import commands, pages

REMEDY = "tools/make_pictures makes it anew"
STEPS = 12
STEPS_OF_KILLED = 48  # it still runs when its first checkpoint has been seen

# Lines that a run prints only sometimes.
SOMETIMES = re.compile(r"^step 0: (MFU|training waited|rank 0 is slow)")


def tool():
    loader = importlib.machinery.SourceFileLoader("make_pictures", str(pages.ROOT / "tools/make_pictures"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("make_pictures", loader))
    loader.exec_module(module)
    return module


def kind(line):
    """The line without its numbers, their units, and the lengths of bars and blanks."""
    line = re.sub(r"[█-▏░▒▓#]+", "#", line)
    line = re.sub(r"\d+(?:[.,:]\d+)*(?:e[+-]?\d+)?", "0", line)
    line = re.sub(r"0 ?[kMGT]?(B|FLOP)\b", r"0 \1", line)
    line = re.sub(r"0[kMG]\b", "0", line)
    line = re.sub(r"0 (ms|min|h|s)\b", "0 s", line)
    line = re.sub(r"\b0 times\b", "0 time", line)
    return " ".join(line.split())


def is_curve(line):
    return any(0x2800 <= ord(character) < 0x2900 for character in line)


def kinds(text):
    return {kind(line) for line in text.splitlines() if line.strip() and not is_curve(line)}


def description(svg):
    found = re.search(r"<desc>(.*?)</desc>", svg, re.DOTALL)
    return html.unescape(found[1]) if found else ""


def drawn(svg):
    return html.unescape("".join(re.findall(r"<text[^>]*>(.*?)</text>", svg)))


def without_blanks(text):
    return "".join(text.split())


def picture_problems(name, printed):
    svg = (pages.ROOT / "docs/pictures" / name).read_text(encoding="utf-8")
    text = description(svg)
    if not without_blanks(text) or not without_blanks(drawn(svg)).endswith(without_blanks(text)):
        yield f"docs/pictures/{name}: its description is not the text that it shows; {REMEDY}"
    for line in sorted(kinds(text) - kinds(printed)):
        if not SOMETIMES.match(line):
            yield f"docs/pictures/{name}: the program prints no line like '{line}' (0 is any number); {REMEDY}"


def problems(build):
    commands.require("tmux", "tmux")
    commands.require("pgrep", "procps")
    make_pictures = tool()
    os.environ["PATH"] = commands.search_path(build)
    os.environ.pop("COLUMNS", None)
    with tempfile.TemporaryDirectory(prefix="fsdp-pictures-") as name:
        folder = pathlib.Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        sources = sorted((pages.ROOT / "apps").rglob("*.cpp"))
        (folder / "kjv.txt").write_text("".join(source.read_text(encoding="utf-8") for source in sources))
        make_pictures.prepare(folder)
        yield from picture_problems("killed.svg", make_pictures.plain(make_pictures.survive(folder, STEPS_OF_KILLED)))
        yield from picture_problems("terminal.svg", make_pictures.plain(make_pictures.train(folder, STEPS)))
