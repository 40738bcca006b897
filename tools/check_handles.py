#!/usr/bin/env python3
"""Fails when a public handle can be moved and keeps data that a moved-from one would be used without.

Of every class of include/fsdp/ that can be moved, each data member is a detail::Movable (include/fsdp/movable.h), whose
use after a move is an Error, or a number. A class that says nothing of moves but declares its copy constructor or its
destructor is copied instead. Modules live behind shared pointers. Run from anywhere: tools/check_handles.py [FOLDER]
"""

import pathlib
import re
import sys

CLASS = re.compile(r"^( *)class (\w+)(?: final)?(?: : ([^{;]*))? \{$", re.MULTILINE)
MEMBER = re.compile(r"^ +(?:mutable )?((?:[\w:]+)(?:<.*>)?(?: const)?[ *&]+)(\w+_)(?: = [^;]*|\{[^;]*\})?;", re.MULTILINE)
SAFE = re.compile(r"^(?:(?:fsdp::)?detail::Movable<.*>|bool|int|size_t|u?int\d+_t|float|double)$")


def can_be_moved(name, body):
    if re.search(rf"\b{name}\({name}&&[^)]*\)(?!.*= delete)", body):
        return True
    return not re.search(rf"~{name}\(|\b{name}\(const {name}&[^)]*\)", body)


def classes_in(text):
    for match in CLASS.finditer(text):
        end = text.find(f"\n{match[1]}}}", match.end())
        yield match[2], match[3] or "", text[match.end() : end]


def without_inner_scopes(body):
    """The class's own declarations: what stands in further braces is a function's, or another class's."""
    kept, depth = [], 0
    for line in body.splitlines():
        if depth == 0:
            kept.append(line)
        depth += line.count("{") - line.count("}")
    return "\n".join(kept)


def problems(folder):
    for path in sorted(folder.glob("*.h")):
        text = re.sub(r"//.*", "", path.read_text())
        text = re.sub(r"\n +(?=\w+_(?: =|;|\{))", " ", text)  # declarations of two lines
        for name, bases, body in classes_in(text):
            if name == "Movable" or "torch::nn::" in bases or not can_be_moved(name, body):
                continue
            for kind, member in MEMBER.findall(without_inner_scopes(body)):
                if not SAFE.match(kind.strip()):
                    yield f"{path.name}: {name}::{member} is {kind.strip()}, and use after a move would miss it. Make it detail::Movable<\"{name}\", ...>"


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "include" / "fsdp"
    found = list(problems(folder))
    print("\n".join(found) or "every handle that can be moved says so when it was")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
