"""The pictures of tools/draw_*.py are those that the commands draw now, byte for byte."""

import pathlib
import subprocess
import sys
import tempfile

from documents import pages

# By command: its arguments, and the file or folder under docs/pictures that it draws. BUILD is the folder of a build,
# OUTPUT the place to draw to.
DRAWN = {
    "draw_broadcasts.py": (["OUTPUT"], "broadcasts.svg"),
    "draw_collectives.py": (["OUTPUT"], "collectives"),
    "draw_divisions.py": (["OUTPUT"], "divisions.svg"),
    "draw_failover.py": (["OUTPUT"], "failover.svg"),
    "draw_give_way.py": (["OUTPUT"], "give_way.svg"),
    "draw_scaling.py": (["BUILD", "OUTPUT"], "scaling.svg"),
    "draw_schedules.py": (["BUILD", "OUTPUT"], "schedules.svg"),
    "draw_steps.py": (["OUTPUT"], "steps"),
    "draw_unit.py": (["OUTPUT"], "unit.svg"),
    "draw_zero.py": (["BUILD", "OUTPUT"], "zero.svg"),
}

# Commands whose pictures show a run, with the reason.
OF_A_RUN = {
    "draw_trace.py": "draws the times of a run, which are others in each run",
}


def files_of(place):
    """The bytes of a file, or of all files in a folder, by name."""
    files = [place] if place.is_file() else sorted(place.glob("*"))
    return {file.name: file.read_bytes() for file in files}


def draw(command, arguments, output, build):
    places = {"BUILD": str(build), "OUTPUT": str(output)}
    words = [sys.executable, str(command), *(places.get(word, word) for word in arguments)]
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def drawing_problems(name, arguments, picture, build):
    remedy = f"Run tools/{name} and look at the picture before you commit it."
    with tempfile.TemporaryDirectory(prefix="fsdp-drawings-") as folder:
        output = pathlib.Path(folder) / picture
        ended = draw(pages.ROOT / "tools" / name, arguments, output, build)
        if ended.returncode != 0:
            yield f"tools/{name} ended with {ended.returncode}: {ended.stdout.strip()}"
            return
        drawn, there = files_of(output), files_of(pages.ROOT / "docs/pictures" / picture)
    place = f"docs/pictures/{picture}"
    for file in sorted(drawn.keys() | there.keys()):
        if file not in there:
            yield f"{place}: there is no {file}, which tools/{name} draws. {remedy}"
        elif file not in drawn:
            yield f"{place}: tools/{name} draws no {file}. Remove the file."
        elif drawn[file] != there[file]:
            yield f"{place}: {file} differs from the picture that tools/{name} draws. {remedy}"


def table_problems():
    commands = {command.name for command in (pages.ROOT / "tools").glob("draw_*.py")}
    known = DRAWN.keys() | OF_A_RUN.keys()
    for name in sorted(commands - known):
        yield f"tools/{name} is in no table of tests/documents/drawings.py. Say there which picture it draws."
    for name in sorted(known - commands):
        yield f"tests/documents/drawings.py names tools/{name}, which does not exist. Remove the line."


def problems(build):
    yield from table_problems()
    for name, (arguments, picture) in DRAWN.items():
        yield from drawing_problems(name, arguments, picture, build)
