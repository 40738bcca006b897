"""Makes the whole files, runs one case, and says what was wrong with the answer."""

import dataclasses
import hashlib
import json
import os
import pathlib
import random
import shlex
import shutil
import tempfile
import time

from hostile.mutations import MUTATIONS
from processes.state import State, random_state
from hostile.targets import (CONVERTED, HUGGING_FACE_TARGETS, SENTENCEPIECE_TARGETS, TARGETS, TINY,
                             hugging_face_tokenizer)

MOST_SECONDS = 60  # a hang; a case takes about one
MOST_BYTES = 2 << 30  # of memory; with the whole files a quarter of it is taken
SHOWN = {"\n", "\t"}


@dataclasses.dataclass
class Case:
    name: str
    command: str
    output: str
    problems: list


def wait(process):
    """The exit code, or None after MOST_SECONDS, and the peak of the process's memory in bytes."""
    end = time.monotonic() + MOST_SECONDS
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_maxrss * 1024
        if time.monotonic() > end:
            process.kill()
            process.wait()
            return None, 0
        time.sleep(0.01)


def run(program, arguments, folder, state=State()):
    """The exit code, None for a program that does not end, its output, and the peak of its memory in bytes."""
    environment = {**os.environ, "FSDP_CACHE": str(folder / "cache"), "CUDA_VISIBLE_DEVICES": "", "LC_ALL": "C.UTF-8"}
    command = [str(program), *arguments]
    with tempfile.TemporaryFile() as output:
        process = state.start(command, output, env=environment)
        code, peak = wait(process)
        output.seek(0)
        return code, output.read().decode(errors="surrogateescape"), peak


def whole_files(program, folder):
    """What the cases are made from, in `folder`. Fails where the program does not take them as they are."""
    (folder / "text.txt").write_text("".join(f"In the beginning was the word {i}.\n" for i in range(200)))
    (folder / "tokenizer.json").write_text('{"tokenizer": "bytes"}\n')

    def succeed(*arguments, by=program):
        code, output, _ = run(by, arguments, folder)
        if code != 0:
            raise SystemExit(f"the whole files were refused: {shlex.join(arguments)}\n{output}")

    text, tiny = str(folder / "text.txt"), TINY
    succeed("train", *tiny, "--text", text, "--run", str(folder / "run"), "--steps", "2", "--export")
    (folder / "indexed").mkdir()
    for name in ("model.safetensors", "config.json"):
        shutil.copy(folder / "run" / "model" / name, folder / "indexed" / name)
    weights = (folder / "indexed" / "model.safetensors").read_bytes()
    header = json.loads(weights[8: 8 + int.from_bytes(weights[:8], "little")])
    (folder / "indexed" / "model.safetensors").rename(folder / "indexed" / "model-1.safetensors")
    index = {"weight_map": {name: "model-1.safetensors" for name in header if name != "__metadata__"}}
    (folder / "indexed" / "model.safetensors.index.json").write_text(json.dumps(index))
    succeed("prepare", "--text", text, "--output", str(folder / "tokens"))
    succeed("prepare", "--text", text, "--output", str(folder / "tokens-llmc"), "--kind", "llmc-gpt2")
    code, _, _ = run(program, ("train", *tiny, "--text", text, "--run", str(folder / "spm"), "--steps", "1",
                               "--tokenizer", "train:270"), folder)
    if code == 0 and (folder / "spm" / "tokenizer.model").exists():
        TARGETS.update(SENTENCEPIECE_TARGETS)
    (folder / "hugging_face").mkdir()
    tokenizer = folder / "hugging_face" / "tokenizer.json"
    tokenizer.write_text(json.dumps(hugging_face_tokenizer()))
    code, output, _ = run(program, ("prepare", "--text", text, "--output", str(folder / "hugging_face" / "tokens"),
                                    "--tokenizer", str(tokenizer)), folder)
    if code == 0:
        TARGETS.update(HUGGING_FACE_TARGETS)
    elif "needs Python with the package tokenizers" not in output:
        raise SystemExit(f"a whole tokenizer.json was refused:\n{output}")
    for place, options in CONVERTED.items():
        succeed(str(folder / "run" / "step-2"), str(folder / place), *options, by=program.with_name("fsdp-convert"))
    for target in TARGETS.values():
        with tempfile.TemporaryDirectory() as copy:
            place = pathlib.Path(copy) / "files"
            shutil.copytree(folder, place)
            succeed(*(part.format(place) for part in target.command), by=program.with_name(target.program))
    return folder


def fingerprint(folder):
    return {path.relative_to(folder): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*")) if path.is_file()}


def shown_by_control(text):
    return sorted({c for c in text if c not in SHOWN and (ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0
                                                          or 0x202A <= ord(c) <= 0x202E or ord(c) == 0xDC9B)})


def state_of(name):
    """The state in which the program of a case is started; for as many as not the usual one."""
    rng = random.Random(f"{name} state")
    return random_state(rng) if rng.random() < 0.5 else State()


def words_of_a_crash(output):
    words = ("internal error", "terminate called", "what():", "std::", "Sanitizer", "killed by signal")
    return [word for word in words if word in output]


def problems_of(code, output, peak, target, place, before, mutation, state):
    if code is None:
        return [f"it ran for more than {MOST_SECONDS} s"]
    problems = []
    if peak > MOST_BYTES:
        problems.append(f"it took {peak >> 20} MiB of memory")
    if code not in (0, 1, 2):
        problems.append(f"exit code {code}")
    if controls := shown_by_control(output):
        problems.append(f"control characters: {controls}")
    problems += [f"it says '{word}'" for word in words_of_a_crash(output)]
    hostile = place / target.file
    if code in (1, 2):
        is_silent = 2 in state.closed
        if not is_silent and str(hostile) not in output and str(hostile.parent) not in output:
            problems.append(f"it does not name {hostile}")
        if target.keeps and (now := fingerprint(place / target.keeps)) != before:
            changed = [str(path) for path in {*before, *now} if before.get(path) != now.get(path)]
            problems.append(f"it refused the file, and changed {changed}")
    if mutation in ("flip_bit", "flip_many_bits") and target.keeps and code == 0:
        problems.append("a changed bit was not found")
    return problems


def run_case(program, whole, name):
    target_name, mutation, number = name.split("/")
    target = TARGETS[target_name]
    with tempfile.TemporaryDirectory(prefix="fsdp-hostile-case-") as folder:
        place = pathlib.Path(folder) / "files"
        shutil.copytree(whole, place)
        hostile = place / target.file
        data = hostile.read_bytes()
        changed = MUTATIONS[mutation](data, random.Random(f"{target_name} {mutation} {number}"))
        hostile.write_bytes(changed)
        before = fingerprint(place / target.keeps) if target.keeps else {}
        arguments = [part.format(place) for part in target.command]
        state = state_of(name)
        code, output, peak = run(program.with_name(target.program), arguments, place, state)
        problems = problems_of(code, output, peak, target, place, before, mutation, state) if changed != data else []
        return Case(name, f"{shlex.join([target.program, *arguments])}\n  {state}", output, problems)
