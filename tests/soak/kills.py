"""A run is killed again and again, and started again as it was: its final weights are those of a run that was not, and
no more than one interval between checkpoints is trained twice, or two, where checkpoints are written beside the steps
of the next interval. Some of them are damaged meanwhile: the run goes on from the one before, and says why."""

import os
import pathlib
import random
import shutil
import signal
import time

from soak.trainer import INTERVAL, Fault, checkpoints, problems_of_end, problems_of_text, resumed_step, steps

MOST_KILLS_OF_A_RUN = 3


def kill_at_a_moment(rng, seconds):
    """One process of the job, or all of it, at a random moment."""
    def kill(process):
        time.sleep(rng.uniform(0, seconds))
        if process.poll() is not None:
            return
        if rng.random() < 0.3:
            os.killpg(process.pid, signal.SIGKILL)
            return
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        try:
            os.kill(int(rng.choice([*children, process.pid])), signal.SIGKILL)
        except ProcessLookupError:
            pass
    return kill


def damage_newest(run, rng):
    """One bit of the newest checkpoint, where there is an older one. Returns the checkpoint."""
    found = checkpoints(run)
    if len(found) < 2:
        return None
    file = rng.choice(sorted(found[0].iterdir()))
    data = bytearray(file.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)
    return found[0]


class KilledRun:
    def __init__(self, trainer, reference, seed):
        self.saves_beside = seed % 2 == 0
        self.trainer = trainer if self.saves_beside else trainer.like((), ("--save-sync",))
        self.reference, self.rng = reference, random.Random(seed)
        self.run = trainer.folder / f"killed-{seed}"
        self.damaged = None
        self.problems, self.kills = [], 0

    def start_and_kill(self):
        """Returns whether it was killed before its end."""
        before = steps(self.run)
        if self.rng.random() < 0.5:
            at = self.rng.randint(1, len(self.reference.calls))
            ending = self.trainer.run(self.run, Fault(self.rng.choice(["kill-process", "kill-group"]), at))
        else:
            ending = self.trainer.run(self.run, while_running=kill_at_a_moment(self.rng, self.reference.seconds))
        self.check(before, ending)
        return ending.code != 0

    def check(self, before, ending):
        """A process that found the steps `before` in the record."""
        self.problems += problems_of_text(ending)
        resumed = resumed_step(ending.output)
        if resumed is None:
            return
        lost = (before[-1] if before else 0) - resumed
        most = INTERVAL * (1 + self.saves_beside + bool(self.damaged))
        if lost > most:
            self.problems.append(f"{lost} steps are lost, expected at most {most}:\n{ending.output}")
        if self.damaged and f"{self.damaged} cannot be loaded" not in ending.output:
            self.problems.append(f"it does not say that {self.damaged} is damaged:\n{ending.output}")
        self.damaged = None

    def to_its_end(self):
        for _ in range(self.rng.randint(1, MOST_KILLS_OF_A_RUN)):
            if not self.start_and_kill():
                break
            self.kills += 1
            if not self.damaged and self.rng.random() < 0.3:
                self.damaged = damage_newest(self.run, self.rng)
        before = steps(self.run)
        ending = self.trainer.run(self.run)
        self.check(before, ending)
        self.problems += problems_of_end(self.run, ending, self.reference.weights)
        if not self.problems:
            shutil.rmtree(self.run)


def killed_run(trainer, reference, seed):
    """How often it was killed, and what is wrong with it."""
    run = KilledRun(trainer, reference, seed)
    run.to_its_end()
    return run.kills, [f"run {seed}: {problem}" for problem in run.problems]
