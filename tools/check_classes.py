#!/usr/bin/env python3
"""Fails when a class of src/ has more than 40 functions and members together, and its header does not say why.

A class that is the one door to others may be that large. Its header then has a sentence with the words "so many
functions because" or "so many members because". Overloads count one by one; types within a class and friends do not
count. Run from anywhere: tools/check_classes.py [FOLDER]
"""

import pathlib
import re
import sys

MOST = 40
HEAD = re.compile(r"\b(?:class|struct)\s+(?:alignas\([^)]*\)\s*)?(\w+)(?:\s+final)?\s*(?::[^;{]*)?\{")
NO_MEMBER = re.compile(r"\s*(?:friend|using|static_assert|enum|class|struct|union|typedef)\b")
WHY = re.compile(r"\bso many (?:functions|members) because\b")
ACCESS = re.compile(r"\b(?:public|private|protected)\s*:(?!:)")


def without_comments(text):
    text = re.sub(r'R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"', '""', text)
    text = re.sub(r"'(?:\\.|[^'\\\n])'", "0", text)
    return re.sub(r"//[^\n]*|/\*(?:.|\n)*?\*/|^\s*#[^\n]*", "", text, flags=re.MULTILINE)


def end_of_braces(text, begin):
    """The place behind the brace that closes the one before `begin`."""
    depth, place = 1, begin
    while depth > 0:
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        place += 1
    return place


def declarations(body):
    """The statements of a class; a function's body is left out."""
    statement, place = "", 0
    while place < len(body):
        char = body[place]
        place += 1
        if char == "{":
            place = end_of_braces(body, place)
            statement += "{}"
            is_function = re.search(r"\)\s*(?:const|noexcept|override|final|\s|->[^;{]*)*(?::(?!:).*)?\{\}$", statement, re.DOTALL)
            goes_on = re.match(r"\s*[,{]", body[place:])  # an initialiser of a constructor
            if is_function and not goes_on:
                yield statement
                statement = ""
        elif char == ";":
            yield statement
            statement = ""
        else:
            statement += char


def names_in(declaration):
    """How many functions or members a declaration names: `int rows, columns = 0` names two."""
    declaration = ACCESS.sub("", declaration).strip()
    if not declaration or NO_MEMBER.match(declaration) or re.match(r"template\b[^;]*\bfriend\b", declaration):
        return 0
    flat, before = declaration, None
    while flat != before:
        before, flat = flat, re.sub(r"\{[^{}]*\}|\([^()]*\)|<[^<>]*>|\[[^\[\]]*\]", "", flat)
    return 1 if "(" in declaration.split("=")[0].split("{")[0] else 1 + flat.count(",")


def classes_in(text):
    for match in HEAD.finditer(text):
        if re.search(r"\benum\s*$", text[: match.start()]):
            continue
        body = text[match.end() : end_of_braces(text, match.end()) - 1]
        yield match[1], sum(names_in(declaration) for declaration in declarations(body))


def problems(folder):
    for path in sorted(folder.rglob("*.h")) + sorted(folder.rglob("*.cpp")):
        text = path.read_text()
        large = [(name, count) for name, count in classes_in(without_comments(text)) if count > MOST]
        if len(WHY.findall(re.sub(r"\s*\n// ", " ", text))) >= len(large):
            continue
        for name, count in large:
            yield f"{path.relative_to(folder)}: {name} has {count} functions and members, at most {MOST} are expected. Divide it, or say in its header why it has so many."


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "src"
    found = list(problems(folder))
    print("\n".join(found) or f"every class with more than {MOST} functions and members says why")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
