"""LibTorch of a given version, with the CUDA packages that it names, in a folder: from PyPI, for machines without GPU.

Only the files that C++ needs are unpacked: headers, libraries and CMake's files.
"""

import os
import pathlib
import re
import subprocess
import sys
import zipfile

# One of each minor version that the library knows (src/interpose/libtorch_versions.h).
VERSIONS = ("2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")

WANTED = re.compile(r"torch/(include|lib|share)/|torch/version\.py$|.*\.dist-info/METADATA$")


def fetch(version, folder):
    """Returns the folder that holds torch/ and nvidia/. If it is complete already, nothing is fetched."""
    place = pathlib.Path(folder) / version
    if (place / "complete").exists():
        return place
    place.mkdir(parents=True, exist_ok=True)
    pip("download", "--no-deps", "--dest", place, f"torch=={version}")
    (wheel,) = place.glob("torch-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place, [name for name in archive.namelist() if WANTED.match(name)])
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        wanted = requirements(archive.read(metadata).decode())
    wheel.unlink()
    if wanted:  # none: a LibTorch for CPUs
        pip("install", "--target", place, *wanted)
    (place / "complete").touch()
    return place


def requirements(metadata):
    """The CUDA packages that a wheel of torch names, and two more, whose headers CUDA's headers include."""
    named = re.findall(r"^Requires-Dist: ((?:cuda-toolkit|nvidia-)[^;]*?)\s*(?:;.*)?$", metadata, re.M)
    toolkit = re.search(r"^cuda-toolkit.*==(\d+\.\d+)", "\n".join(named), re.M)
    beside = [f"nvidia-cuda-{name}=={toolkit[1]}.*" for name in ("crt", "cccl")] if toolkit else []
    return [*named, *beside]


def pip(command, *arguments):
    """Runs pip without this machine's constraints: versions are exact here."""
    subprocess.run([sys.executable, "-m", "pip", command, "--quiet", "--disable-pip-version-check", "--no-cache-dir",
                    "--only-binary=:all:", *map(str, arguments)], check=True,
                   env={**os.environ, "PIP_CONSTRAINT": os.devnull, "PIP_ROOT_USER_ACTION": "ignore"})


def libraries(place):
    """The folders that a program needs in LD_LIBRARY_PATH, except those of the driver."""
    return [str(path) for path in (place / "torch/lib", *sorted(place.glob("nvidia/*/lib"))) if path.is_dir()]
