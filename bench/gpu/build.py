"""Builds the check of a GPU on a machine without one, and packs it into a folder for a machine that has one.

The folder needs no network there: FOLDER/run, with a Python that has torch of the same version.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

from libtorch import wheels

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = {"test_cuda": "tests", "bench_gpu_models": "bench/gpu", "bench_gpu_speed": "bench/gpu", "fsdp-train": "apps"}
LARGEST_MIB = 60
# The C library and the compilers' runtime, which every machine has.
SYSTEM = re.compile(r"(ld-linux|lib(c|m|mvec|dl|rt|pthread|util|resolv|anl|gcc_s|stdc\+\+))[-.]")


def main():
    parser = argparse.ArgumentParser(prog="scripts/gpu-check build", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="folder to make for the other machine")
    parser.add_argument("--torch", default="2.11.0", metavar="VERSION", help="version of LibTorch there (2.11.0)")
    parser.add_argument("--downloads", type=pathlib.Path, default=ROOT / "build/matrix",
                        help="folder for LibTorch, 4 GB, and the build (build/matrix)")
    parser.add_argument("--jobs", type=int, default=2, help="compilations at once (2)")
    options = parser.parse_args()
    place = wheels.fetch(options.torch, options.downloads.absolute())
    build = options.downloads.absolute() / f"gpu-{options.torch}"
    compile_programs(place, build, options.jobs)
    pack(place, build, options.folder, options.torch)


def compile_programs(place, build, jobs):
    """Builds the release preset, as users do. The linker does not look for libraries that LibTorch's libraries need."""
    configure = ["cmake", "--preset", "release", "-B", build, f"-DCMAKE_PREFIX_PATH={place}/torch/share/cmake",
                 "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--allow-shlib-undefined", "-DFSDP_BUILD_EXAMPLES=OFF"]
    said = subprocess.run(list(map(str, configure)), cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    if "-- nccl backend" not in said:
        sys.exit(f"gpu-check: this build has no nccl backend:\n{said}")
    subprocess.run(["cmake", "--build", str(build), "-j", str(jobs), "--target", *PROGRAMS], cwd=ROOT, check=True)


def pack(place, build, folder, version):
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    for name, within in PROGRAMS.items():
        subprocess.run(["strip", "-o", str(folder / "bin" / name), str(build / within / name)], check=True)
    for library in libraries(place, [build / within / name for name, within in PROGRAMS.items()]):
        shutil.copy(library, folder / "lib", follow_symlinks=True)
    shutil.copytree(HERE / "check", folder / "check", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "peer.py", folder)
    (folder / "built-for.txt").write_text(f"LibTorch {version}, {commit()}\n")
    (folder / "run").write_text('#!/usr/bin/env bash\n# Checks the GPU of this machine: ./run --help\n'
                                'cd "$(dirname "${BASH_SOURCE[0]}")" && PYTHONDONTWRITEBYTECODE=1 exec python3 -m check "$@"\n')
    (folder / "run").chmod(0o755)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20
    print(f"{folder}: {size:.0f} MiB")
    if size > LARGEST_MIB:
        sys.exit(f"gpu-check: {folder} has {size:.0f} MiB, expected {LARGEST_MIB} at most")


def libraries(place, programs):
    """The libraries of the programs that neither LibTorch's packages nor every system have."""
    found = set()
    for program in programs:
        listed = subprocess.run(["ldd", str(program)], check=True, stdout=subprocess.PIPE, text=True).stdout
        for name, path in re.findall(r"(\S+) => (/\S+)", listed):
            if not SYSTEM.match(name) and not pathlib.Path(path).resolve().is_relative_to(place.resolve()):
                found.add(path)
    return sorted(found)


def commit():
    described = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return f"commit {described.stdout.strip()}"


if __name__ == "__main__":
    main()
