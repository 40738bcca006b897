#!/usr/bin/env python3
"""Fails when a text becomes harder to read: comments and messages of C++ files, and pages.

Counts, per file, words that name nothing ("nobody"), sentences that begin with "What", "Of" or "Whether", and sentences
of more than 35 words. tools/words_left.txt has the counts that are left. A count that grew fails. A count that fell
fails as well, until `tools/check_words.py --lower` has written it into the list. Run from anywhere:

  tools/check_words.py             the check
  tools/check_words.py PATH...     every finding in these files or folders, listed or not
  tools/check_words.py --lower     lowers the list to today's counts; it never raises one
"""

import argparse
import pathlib
import re
import sys

LONGEST = 35  # words of a sentence
FOLDERS = {"include": (".h",), "src": (".h", ".cpp"), "apps": (".h", ".cpp"), "examples": (".h", ".cpp", ".md"), "docs": (".md",)}
LIST = "tools/words_left.txt"

WORDS = re.compile(r"\b(nobody|somebody|whoever|those that|the one that)\b", re.IGNORECASE)
OPENINGS = re.compile(r"[\"'(*]*(What|Of|Whether)\b(?!.*\?[\"')*]*$)")  # a question may begin with "What"
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*`]*[A-Z0-9`])")

TOKEN = re.compile(
    r'R"(?P<d>[^(\s]*)\((?P<raw>.*?)\)(?P=d)"|"(?P<string>(?:\\.|[^"\\\n])*)"|//(?P<comment>[^\n]*)'
    r"|'(?:\\.|[^'\\\n])+'|(?P<end>[;{}])",
    re.DOTALL,
)


def comment_paragraphs(lines):
    """Paragraphs of comments, from the line, column and text of each "//" and whether it stands alone on its line."""
    paragraph, last, in_item = None, None, False
    for number, column, alone, text in lines:
        follows = alone and last == (number - 1, column)
        begins_item = bool(re.match(r" *(- |\d\. )", text))
        in_item = begins_item or (in_item and follows and text.startswith("   "))
        is_example = text.startswith("   ") and not in_item
        if paragraph and (not text.strip() or is_example or begins_item or not follows):
            yield paragraph
            paragraph = None
        if text.strip() and not is_example:
            paragraph = (paragraph[0], f"{paragraph[1]} {text.strip()}") if paragraph else (number, text.strip(" -"))
        last = (number, column)
    if paragraph:
        yield paragraph


def messages(strings):
    """Texts of strings: those of one statement are one text where a blank says that they go on."""
    text, first, statement = "", 0, None
    for number, this_statement, part in strings:
        if text and this_statement == statement and (text.endswith(" ") or re.match(r"[ .,:;)']", part)):
            text += part
        else:
            yield first, text
            text, first = part, number
        statement = this_statement
    yield first, text


def cpp_texts(text):
    comments, strings, statement = [], [], 0
    for token in TOKEN.finditer(text):
        number = text.count("\n", 0, token.start()) + 1
        line = text[text.rfind("\n", 0, token.start()) + 1 : token.start()]
        if token["comment"] is not None:
            comments.append((number, len(line), not line.strip(), token["comment"]))
        elif token["end"]:
            statement += 1
        elif token["raw"] is not None:
            strings += [(number, object(), part) for part in token["raw"].split("\n\n")]
        elif token["string"] is not None:
            strings += [(number, statement if i == 0 else object(), part) for i, part in enumerate(token["string"].split("\\n"))]
    yield from comment_paragraphs(comments)
    yield from messages(strings)


def page_texts(text):
    text = re.sub(r"^( *)```.*?^\1```$|<!--.*?-->", lambda block: re.sub(r"[^\n]", "", block[0]), text, flags=re.DOTALL | re.MULTILINE)
    paragraph, first = "", 0
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if not line.strip() or re.match(r"\s*(#|\||- |\* |\d+\. )", line):
            yield first, paragraph
            paragraph, first = "", number
        if line.startswith("|"):
            yield from ((number, cell) for cell in re.split(r"(?<!\\)\|", line))
        elif not line.startswith("#"):
            paragraph = f"{paragraph} {line.strip()}" if paragraph else re.sub(r"^\s*(- |\* |\d+\. )?", "", line)


def findings(path):
    """(line, finding) of each sentence that is not plain."""
    text = path.read_text(encoding="utf-8")
    for number, paragraph in page_texts(text) if path.suffix == ".md" else cpp_texts(text):
        plain = re.sub(r"`[^`]*`", "Code", re.sub(r"\]\([^)]*\)|\*\*", "", paragraph))
        for sentence in SENTENCE_END.split(plain.strip()):
            start = sentence[:60]
            yield from ((number, f'"{word}": {start}') for word in WORDS.findall(sentence))
            if " " in sentence and (opening := OPENINGS.match(sentence)):
                yield number, f'begins with "{opening[1]}": {start}'
            if (words := len(re.findall(r"\S*\w\S*", sentence))) > LONGEST:
                yield number, f"{words} words: {start}"


def files(root):
    yield from (path for name in ("README.md", "CONTRIBUTING.md") if (path := root / name).exists())
    for folder, suffixes in FOLDERS.items():
        yield from (path for path in sorted((root / folder).rglob("*")) if path.suffix in suffixes)


def read_list(root):
    lines = (root / LIST).read_text().splitlines() if (root / LIST).exists() else []
    return {path: int(count) for count, path in (line.split() for line in lines)}


def problems(found, left):
    for path in sorted({*found, *left}):
        now, listed = len(found.get(path, ())), left.get(path, 0)
        if now > listed:
            yield from (f"{path}:{number}: {finding}" for number, finding in found[path])
            yield f"{path}: {now} such sentences, {listed} listed in {LIST}: write shorter ones (CONTRIBUTING.md, Style)"
        elif now < listed:
            yield f"{path}: {now} such sentences, {listed} listed in {LIST}: run tools/check_words.py --lower"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=pathlib.Path)
    parser.add_argument("--lower", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    arguments = parser.parse_args()
    root = arguments.root
    found = {str(path.relative_to(root)): list(findings(path)) for path in files(root)}
    if arguments.paths:
        wanted = [path.resolve() for path in arguments.paths]
        for path, list_ in found.items():
            if any((root / path).is_relative_to(folder) for folder in wanted):
                print("".join(f"{path}:{number}: {finding}\n" for number, finding in list_), end="")
        return 0
    left = read_list(root)
    if arguments.lower:
        left = {path: min(count, len(found.get(path, ()))) for path, count in left.items()}
        (root / LIST).write_text("".join(f"{count} {path}\n" for path, count in sorted(left.items()) if count))
    failed = list(problems(found, left))
    print("\n".join(failed) or f"{len(found)} files: {sum(left.values())} sentences are left to be made plain, none is new")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
