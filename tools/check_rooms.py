#!/usr/bin/env python3
"""Fails when a room includes one that it must know nothing of.

The rooms of src/ are listed from the ground up; a file may include its own room and those before it. A public header
belongs to the room that implements it. The rooms of apps/ are listed with what each may include; they see the library
by its public headers, and share its rooms files/, formats/, layout/, plan/ and stages/. Each program starts by
AT_PROGRAM_START. Run from anywhere: tools/check_rooms.py
"""

import pathlib
import re
import sys

ROOMS = ["base", "files", "parallel", "memory", "layout", "schedule", "stages", "collectives", "world", "interpose", "deferred", "buffers", "report", "plan", "engine", "optim", "checkpoint", "formats", "api", "pipeline"]

# Rooms that a room may not include although they lie before it.
UNKNOWN = {
    "layout": {"parallel", "memory"},
    "schedule": {"parallel", "memory", "collectives"},
    "stages": {"files", "parallel", "memory", "layout", "schedule"},
    "collectives": {"schedule", "stages"},
    "world": {"schedule", "layout", "stages"},
    "interpose": {"layout", "schedule", "stages", "collectives", "world"},
    "deferred": {"files", "memory", "layout", "schedule", "stages", "collectives", "world"},
    "buffers": {"memory", "schedule", "stages", "world", "interpose", "deferred"},
    "formats": {"parallel", "memory", "schedule", "stages", "collectives", "world", "interpose", "deferred", "buffers", "report", "engine"},
    "plan": {"files", "parallel", "memory", "collectives", "interpose", "deferred", "buffers", "report"},
    "report": {"files", "parallel", "memory", "layout", "collectives", "world", "interpose", "deferred", "buffers"},
}

# The rooms of apps/, and what each may include beside its own and the public headers.
APP_ROOMS = {
    "console": set(),
    "toml": set(),
    "models": {"toml"},
    "tokenizers": set(),
    "data": {"tokenizers"},
    "metrics": {"console"},
    "report": {"console", "metrics"},
    "options": {"console", "toml", "models", "data"},
    "run": {"console", "models", "data", "metrics", "options"},
    "planning": {"console", "toml", "models", "options", "run"},
    "generation": {"console", "models", "tokenizers", "options", "run"},
    "manual": {"models", "options"},
    "doctor": {"console", "tokenizers", "run", "planning"},
    "training": {"console", "models", "tokenizers", "data", "metrics", "report", "options", "run", "planning", "generation"},
    "fsdp-convert": {"console", "manual", "models", "options", "run"},
    "fsdp-calibrate": {"console", "metrics", "models", "options", "planning", "run"},
    "fsdp-plan": {"console", "manual", "models", "options", "planning", "report"},
    "fsdp-train": {"console", "tokenizers", "data", "report", "options", "run", "planning", "generation", "manual", "doctor", "training"},
}

PUBLIC = {
    "error.h": "base",
    "version.h": "base",
    "movable.h": "base",
    "collectives.h": "api",
    "reduce_op.h": "base",
    "world.h": "world",
    "work.h": "world",
    "deferred_init.h": "deferred",
    "options.h": "engine",
    "pipeline.h": "pipeline",
    "plan.h": "plan",
    "trace.h": "engine",
    "sharded_model.h": "engine",
    "sharded_models.h": "api",
    "optim.h": "optim",
    "checkpoint.h": "checkpoint",
    "freed_memory.h": "memory",
    "hot_restart.h": "checkpoint",
    "sync_batch_norm.h": "api",
    "activation_checkpoint.h": "api",
    "activation_checkpoint_detail.h": "api",
    "activation_memory.h": "schedule",
    "activations.h": "api",
    "loss.h": "api",
    "mesh.h": "world",
    "micro_batch.h": "api",
    "random.h": "api",
    "reversible.h": "api",
    "sampler.h": "api",
    "tensor_parallel.h": "api",
    "fsdp.h": "pipeline",
}

# Rooms that know nothing of tensors.
PURE = {"base", "files", "layout", "schedule", "stages", "report", "plan"}

# The rooms of src/ that apps/ may include, and headers beside them.
SHARED = {"files", "formats", "layout", "plan", "stages"}
SHARED_HEADERS = {"checkpoint/manifest.h", "base/patience.h", "base/permutation.h", "world/grid.h"}

# The only rooms that may name these.
RESERVED = {
    r"\bc10d::": {"collectives", "world"},
    r"\bat::parallel_": {"parallel"},  # one thread in our files: parallel/for_parts.h
    r"\bDispatchKey\b|\bStorageImpl\b|\bAutogradMeta\b": {"interpose"},
}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.M)

# A namespace is opened, as for a forward declaration.
NAMESPACE = re.compile(r"^namespace fsdp::(\w+)", re.M)


def room_of(include):
    """The room that an include leads to, or None for what is not ours."""
    if include.startswith("fsdp/"):
        return PUBLIC.get(include.removeprefix("fsdp/"), "unlisted public header")
    first = include.split("/")[0]
    return first if first in ROOMS and "/" in include else None


def app_problems(root):
    for path in sorted((root / "apps").rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        room = path.relative_to(root / "apps").parts[0]
        name = path.relative_to(root)
        if room not in APP_ROOMS:
            yield f"{name}: {room} is not a room of apps/; add it to tools/check_rooms.py and docs/internals.md"
            continue
        text = path.read_text()
        if path.name == "main.cpp" and "AT_PROGRAM_START(" not in text:
            yield f"{name}: begins without AT_PROGRAM_START (console/program_start.h)"
        for include in INCLUDE.findall(text):
            if "/" not in include:
                continue
            target = include.split("/")[0]  # a room's name may be one of src/ and one of apps/
            if (root / "src" / include).exists() and target not in SHARED and include not in SHARED_HEADERS:
                yield f"{name}: includes {include} of src/, whose public headers are include/fsdp/"
            elif target in APP_ROOMS and target != room and target not in APP_ROOMS[room]:
                yield f"{name}: includes {include}, but {room}/ knows nothing of {target}/"


def problems(root):
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        room = path.relative_to(root / "src").parts[0]
        name = path.relative_to(root)
        if room not in ROOMS:
            yield f"{name}: {room} is not a room; add it to tools/check_rooms.py and docs/design.md"
            continue
        text = path.read_text()
        for include in INCLUDE.findall(text):
            target = room_of(include)
            if target is None:
                if room in PURE and re.match(r"(torch|ATen|c10)/", include):
                    yield f"{name}: includes <{include}>, but {room}/ knows nothing of tensors"
            elif target not in ROOMS:
                yield f"{name}: includes <{include}>: {target}"
            elif ROOMS.index(target) > ROOMS.index(room):
                yield f"{name}: includes {include} of {target}/, which lies above {room}/"
            elif target in UNKNOWN.get(room, ()):
                yield f"{name}: includes {include}, but {room}/ knows nothing of {target}/"
        for target in NAMESPACE.findall(text):
            if target in ROOMS and (ROOMS.index(target) > ROOMS.index(room) or target in UNKNOWN.get(room, ())):
                yield f"{name}: declares names of {target}/, of which {room}/ knows nothing"
        for pattern, allowed in RESERVED.items():
            if room not in allowed and (found := re.search(pattern, text)):
                yield f"{name}: names {found.group()}, which belongs to {', '.join(sorted(allowed))}"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    found = [*problems(root), *app_problems(root)]
    rooms = len(ROOMS) + len(APP_ROOMS)
    print("\n".join(found) if found else f"{rooms} rooms: every include points the right way")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
