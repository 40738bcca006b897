"""The pages of this repository, and what is in them: headings, links, fenced blocks, commands."""

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]

FENCE = re.compile(r"^(\s*)```(\w*)\s*$")
COMMENT = re.compile(r"^<!-- (.*) -->$")
SHELL = ("sh", "console")  # languages of blocks that are run: a script, or a session with prompts


@dataclasses.dataclass
class Block:
    page: str  # relative to ROOT
    line: int  # of the fence
    language: str
    lines: list
    comment: str  # of the HTML comment right above the fence, or empty

    @property
    def text(self):
        return "\n".join(self.lines)

    @property
    def place(self):
        return f"{self.page}:{self.line}"

    def commands(self):
        """The commands of a shell block, as a script."""
        if self.language == "sh":
            return self.text
        commands, inside = [], False
        for line in self.lines:
            if inside or line.startswith("$ "):
                commands.append(line if inside else line[2:])
                inside = line.endswith("\\")
        return "\n".join(commands)


def pages():
    """Every page, as paths relative to ROOT."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    found += [ROOT / folder / "README.md" for folder in ("examples", "bench")]
    return sorted(str(page.relative_to(ROOT)) for page in found)


def recipes():
    return sorted(str(recipe.relative_to(ROOT)) for recipe in ROOT.glob("recipes/*.toml"))


def read(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page):
    """The fenced blocks of a page; of a recipe, the commands in its comments."""
    return list(recipe_blocks(page) if page.endswith(".toml") else fenced_blocks(page))


def fenced_blocks(page):
    lines = read(page).split("\n")
    block = None
    for number, line in enumerate(lines, 1):
        fence = FENCE.match(line)
        if block is None and fence:
            above = COMMENT.match(lines[number - 2]) if number > 1 else None
            block = Block(page, number, fence[2], [], above[1] if above else "")
        elif block is not None and fence:
            yield block
            block = None
        elif block is not None:
            block.lines.append(line)


def recipe_blocks(page):
    for number, line in enumerate(read(page).split("\n"), 1):
        command = re.match(r"^#   (.*)$", line)
        if command:
            yield Block(page, number, "sh", [command[1]], "")


def prose(page):
    """The lines outside of fenced blocks, with their numbers."""
    inside = False
    for number, line in enumerate(read(page).split("\n"), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, line


def anchors(page):
    """What links may name after '#': one for each heading, made as GitHub makes them."""
    result = set()
    for _, line in prose(page):
        heading = re.match(r"^#+ (.*)$", line)
        if heading:
            words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            result.add(re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-"))
    return result
