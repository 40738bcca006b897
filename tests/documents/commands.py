"""Runs the commands of a page, one block after the other, in a folder of their own.

The folder is what a user has who stands in the repository: its files, and build/release with the programs, which are
those of the build that is tested. Nothing is compared but exit codes and what tables.LEAVES names.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from documents import pages, tables

SKIPPED = 77  # ctest: this test was skipped
COPIED = ["CMakeLists.txt", "cmake", "docs", "examples", "include", "recipes", "scripts", "src", "tools"]


def skip(reason):
    """Ends the test as one that was skipped, or failed where everything has to be there."""
    print(reason)
    sys.exit(1 if os.environ.get("FSDP_TEST_REQUIRE_ALL") else SKIPPED)


def require(program, package):
    if not shutil.which(program, path=search_path(pathlib.Path())):
        skip(f"the program {program} was not found (Debian: {package})")


def search_path(build):
    venv = pages.ROOT / ".venv/bin"
    return f"{build}/apps:{venv}:{os.environ['PATH']}:/usr/games"


def make_folder(folder, build):
    for name in COPIED:
        copy = shutil.copytree if (pages.ROOT / name).is_dir() else shutil.copyfile
        copy(pages.ROOT / name, folder / name)
    (folder / "build").mkdir()
    (folder / "build/release").symlink_to(build)
    if (pages.ROOT / ".venv").exists():
        (folder / ".venv").symlink_to((pages.ROOT / ".venv").resolve())


def environment(folder, build):
    return os.environ | {
        "PATH": search_path(build),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "HOME": str(folder),
        "CMAKE_GENERATOR": "Ninja",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "80",
    }


def script_of(block):
    """What is run for a block, or None where a table says that it is not run here."""
    if tables.is_left_out(block):
        return None
    commands = block.commands() + "\n"
    for written, instead in tables.INSTEAD.get(block.page, {}).items():
        commands = commands.replace(written, instead)
    before = "".join(command + "\n" for _, command in tables.of(tables.BEFORE, block))
    return before + commands


def run(block, folder, build):
    """Runs a block; the problem, or None."""
    script = script_of(block)
    if script is None:
        return None
    expected = next((code for _, code in tables.of(tables.EXIT_CODES, block)), 0)
    ending = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", script],
        cwd=folder,
        env=environment(folder, build),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if ending.returncode != expected:
        codes = f"exit code {ending.returncode} instead of {expected}"
        return f"{block.place}: {codes} of\n{script}\n{ending.stdout[-4000:]}"
    for _, paths in tables.of(tables.LEAVES, block):
        missing = [path for path in paths if not (folder / path).exists()]
        if missing:
            return f"{block.place}: left no {', '.join(missing)}\n{script}\n{ending.stdout[-4000:]}"
    return None


def problems(page, build):
    blocks = [block for block in pages.blocks(page) if block.language in pages.SHELL]
    for word, (program, package) in tables.NEEDS.items():
        if any(word in block.commands() and not tables.is_left_out(block) for block in blocks):
            require(program, package)
    with tempfile.TemporaryDirectory(prefix="fsdp-documents-") as name:
        folder = pathlib.Path(name)
        make_folder(folder, build)
        for block in blocks:
            problem = run(block, folder, build)
            if problem:
                yield problem
                return  # those that follow build on it
