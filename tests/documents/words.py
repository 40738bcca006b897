"""tools/check_words.py finds what it says it finds, its list cannot grow, and this repository passes it."""

import pathlib
import subprocess
import sys
import tempfile

from documents import pages

TOOL = pages.ROOT / "tools" / "check_words.py"
HALF = "one two three four five six seven eight nine ten " * 2  # 20 words without an end
LONG = HALF * 2

# A file, and the findings in it, each as "line: the first words".
CASES = [
    ("a.h", "// Whether it is so.\n", ["1: begins with"]),
    ("a.h", "// Plain words.\n// Of these, two.\n", ["1: begins with"]),
    ("a.h", "// What happens then?\n// It ends.\n", []),
    ("a.h", "int a;  // bytes\nint b;  // somebody's\n", ['2: "somebody"']),
    ("a.h", f"// {LONG}\n", ["1: 40 words"]),
    ("a.h", f"// {HALF}\n// {HALF}.\n", ["1: 40 words"]),
    ("a.h", f"// {HALF}.\n// {HALF}.\n", ["1: 40 words"]),  # no capital follows: the sentence goes on
    ("a.h", f"// A {HALF}.\n// A {HALF}.\n", []),
    ("a.h", f"//   an example, {LONG}\n", []),
    ("a.h", f"int a;  // {HALF}\nint b;  // {HALF}\nint c;  // {HALF}\n", []),
    ("a.cpp", 'check(a, "rank ", rank, ": nobody answered");\n', ['1: "nobody"']),
    ("a.cpp", f'check(a, "{HALF}", name, " {HALF}");\n', ["1: 40 words"]),
    ("a.cpp", f'rows = {{"{HALF}", "{HALF}"}};\nmore("{HALF}");\n', ["1: 40 words"]),
    ("a.cpp", f'rows = {{{{"a", "{HALF}"}}, {{"b", "{HALF}"}}}};\n', []),
    ("a.cpp", 'const char* help = R"(one\n\nWhat it does.)";\n', ["1: begins with"]),
    ("a.cpp", 'map["What"] = whoever;  // names are no text\n', []),
    ("a.md", f"# What it is\n\n- {HALF}\n- {HALF}\n\n| {HALF} | {HALF} |\n", []),
    ("a.md", f"```sh\nWhat is this\n```\n\nIt ends. Of two `nobody`s,\n{LONG}\n", ["4: begins with", "4: 43 words"]),
]


def run(root, *arguments):
    return subprocess.run([sys.executable, TOOL, "--root", root, *arguments], capture_output=True, text=True)


def case_problems(root, name, text, expected):
    folder = root / ("docs" if name.endswith(".md") else "src")
    folder.mkdir()
    (folder / name).write_text(text)
    lines = [line.split(":", 1)[1] for line in run(root, folder).stdout.splitlines()]
    if len(lines) != len(expected) or not all(line.startswith(begin) for line, begin in zip(lines, expected)):
        yield f"check_words of {text!r}: expected {expected}, found {lines}"


def list_problems(root):
    (root / "src").mkdir()
    (root / "tools").mkdir()
    file, words_left = root / "src" / "a.h", root / "tools" / "words_left.txt"
    for step, text, listed, arguments, code, kept in [
        ("a new one", "// Whether.\n// Of two.\n// Of three.\n", "1 src/a.h\n", [], 1, "1 src/a.h\n"),
        ("a new one is not listed by --lower", "// Of two.\n// Of two.\n", "1 src/a.h\n", ["--lower"], 1, "1 src/a.h\n"),
        ("as listed", "// Of two.\n", "1 src/a.h\n", [], 0, "1 src/a.h\n"),
        ("one less", "// Two.\n", "1 src/a.h\n", [], 1, "1 src/a.h\n"),
        ("one less, written down", "// Two.\n", "1 src/a.h\n", ["--lower"], 0, ""),
        ("a file that is gone", "// Two.\n", "1 src/b.h\n", [], 1, "1 src/b.h\n"),
        ("no list", "// Of two.\n", "", [], 1, ""),
    ]:
        file.write_text(text)
        words_left.write_text(listed)
        done = run(root, *arguments)
        if (done.returncode, words_left.read_text()) != (code, kept):
            yield f"check_words, {step}: exit code {done.returncode}, list {words_left.read_text()!r}: {done.stdout}"


def problems():
    for name, text, expected in CASES:
        with tempfile.TemporaryDirectory() as root:
            yield from case_problems(pathlib.Path(root), name, text, expected)
    with tempfile.TemporaryDirectory() as root:
        yield from list_problems(pathlib.Path(root))
    done = run(pages.ROOT)
    if done.returncode:
        yield done.stdout
