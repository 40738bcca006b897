"""Runs parts within a time for all of them. A part that fails, hangs or prints nonsense is a result like the others."""

import dataclasses
import os
import signal
import subprocess
import time


@dataclasses.dataclass
class Part:
    name: str
    commands: list  # per process [words], or ([words], {variables}); all run at once
    read: object  # turns the first process's output into a dict of figures, or raises ValueError
    limit: float = 60  # seconds
    group: str = ""  # parts of one group run at the same time
    accepted: tuple = (0,)  # exit codes


@dataclasses.dataclass
class Result:
    name: str
    state: str  # ok, failed, too slow, not run
    seconds: float = 0
    figures: dict = dataclasses.field(default_factory=dict)
    output: str = ""  # its end, if the part is not ok


class Running:
    def __init__(self, part, limit, folder):
        self.part, self.begin = part, time.monotonic()
        self.deadline = self.begin + limit
        self.outputs, self.processes = [], []
        for number, command in enumerate(part.commands):
            words, variables = command if isinstance(command, tuple) else (command, {})
            path = folder / f"{part.name.replace('/', ' ').replace(' ', '-')}-{number}.txt"
            self.outputs.append(path)
            with open(path, "w") as output:
                self.processes.append(start(words, variables, output))

    def wait(self):
        codes = [self.code_of(process) for process in self.processes]
        seconds = time.monotonic() - self.begin
        texts = [path.read_text(errors="replace") for path in self.outputs]
        tail = "\n".join(text[-2000:] for text in texts)
        if None in codes:
            return Result(self.part.name, "too slow", seconds, output=tail)
        try:
            figures = self.part.read(texts[0])
        except (ValueError, KeyError, OSError) as error:
            return Result(self.part.name, "failed", seconds, output=f"{tail}\nexit codes {codes}; {error}")
        state = "ok" if set(codes) <= set(self.part.accepted) else "failed"
        return Result(self.part.name, state, seconds, figures, "" if state == "ok" else f"{tail}\nexit codes {codes}")

    def code_of(self, process):
        """None: it did not end in time. Its children end with it."""
        if process is None:
            return 127
        try:
            code = process.wait(timeout=max(0.0, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = None
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        return code


def start(words, variables, output):
    """None: the program cannot be started; the output says why."""
    try:
        return subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                env={**os.environ, **variables}, start_new_session=True)
    except OSError as error:
        output.write(f"{error}\n")
        return None


def run(parts, seconds, folder, say=print):
    """The results of all parts, in their order; `seconds` is the time for all of them."""
    end = time.monotonic() + seconds
    results = []
    for group in groups_of(parts):
        running = []
        for part in group:
            left = end - time.monotonic()
            running.append(Running(part, min(part.limit, left), folder) if left > 0 else Result(part.name, "not run"))
        for one in running:
            results.append(one.wait() if isinstance(one, Running) else one)
            say(f"{results[-1].name}: {results[-1].state}, {results[-1].seconds:.0f} s")
    return results


def groups_of(parts):
    groups = []
    for part in parts:
        if groups and part.group and groups[-1][0].group == part.group:
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups
