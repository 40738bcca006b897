"""fsdp-train of two ranks, of which a random one is killed now and then: how long until it goes on, from memory or from
a checkpoint, and how much of its time is spent in steps that count."""

import array
import random
import shutil
import statistics
import time

from compare.killed_trainer import KilledTrainer

RANKS, BATCH = 2, 4
ENDLESS = 1_000_000  # steps, and restarts
LR = 1e-4
TOKENS = 1_000_000
SEED = 1  # of moments and ranks
KILLS_SAVE_EVERY, MINUTES_SAVE_EVERY, QUICK_SAVE_EVERY = 5, 10, 200  # steps
# By how a run is started; all save checkpoints beside the steps.
KINDS = {"--hot-restart": ["--hot-restart", "--max-restarts", ENDLESS], "--max-restarts": ["--max-restarts", ENDLESS]}
ROUNDS, KILLS_OF_TURN, QUICK_KILLS = 3, 3, 1
# The launcher waits a little before ranks are started that failed sooner than this, twice in a row.
LIVED_SECONDS, QUICK_LIVED_SECONDS = 10.5, 0.3
MINUTES, QUICK_MINUTES = 6, 2
MINUTE, QUICK_MINUTE = 60, 3  # seconds
KILLED_WITHIN = (0.2, 0.8)  # of a minute, so that its recovery lies in it


class Killing:
    """Runs of one model, one after the other, in `folder`."""

    def __init__(self, setup, shape, folder):
        self.setup, self.shape, self.folder = setup, shape, folder
        self.rng = random.Random(SEED)
        self.tokens = folder / "tokens.bin"
        made_up = random.Random(SEED).choices(range(shape.vocabulary), k=TOKENS)
        self.tokens.write_bytes(array.array("H", made_up))

    def save_every(self, steps):
        return QUICK_SAVE_EVERY if self.setup.quick else steps

    def start(self, kind, save_every):
        command = [self.setup.trainer, "--data", self.tokens, "--ranks", RANKS, "--threads", 1, "--batch", BATCH]
        command += [*self.shape.arguments(), "--steps", ENDLESS, "--lr", LR, "--schedule", "constant", "--warmup", 0]
        command += ["--validation-windows", 1, "--sample-length", 0, "--save-every", save_every, "--keep", 2]
        folder = self.folder / "job"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return KilledTrainer([*command, *KINDS[kind]], folder)

    def kill_turn(self, kind):
        """For each kill where it went on from, and the seconds from it to the end of the next step less those of the
        run's median step; and the latter."""
        lived = QUICK_LIVED_SECONDS if self.setup.quick else LIVED_SECONDS
        with self.start(kind, self.save_every(KILLS_SAVE_EVERY)) as job:
            job.wait_for_checkpoint()
            found = []
            for _ in range(QUICK_KILLS if self.setup.quick else KILLS_OF_TURN):
                time.sleep(lived + self.rng.uniform(0, statistics.median(job.step_seconds().values())))
                found.append(job.kill_one(self.rng))
                self.setup.say(f"      from {found[-1].source}: {found[-1].seconds:.2f} s to the end of the next step")
            step = statistics.median(job.step_seconds().values())
        return [{"kind": kind, "source": each.source, "seconds": each.seconds - step} for each in found], step

    def kills(self):
        """Of all turns; every other round in reverse order."""
        found, steps = [], []
        for number in range(1, (1 if self.setup.quick else ROUNDS) + 1):
            for kind in KINDS if number % 2 else reversed(KINDS):
                self.setup.say(f"    round {number}: {kind}")
                of_turn, step = self.kill_turn(kind)
                found += of_turn
                steps.append(step)
        return {"kills": found, "steps": steps, "save_every": self.save_every(KILLS_SAVE_EVERY)}

    def minutes(self):
        """One run, with a kill in each minute. By minute, from the end of a step to that of another, its "seconds" and
        those that were spent in steps that "count": a step that was repeated is in the record once."""
        count, length = (QUICK_MINUTES, QUICK_MINUTE) if self.setup.quick else (MINUTES, MINUTE)
        kind = next(iter(KINDS))
        with self.start(kind, self.save_every(MINUTES_SAVE_EVERY)) as job:
            job.wait_for_checkpoint()
            ends, sources = [job.end_of_step()], []
            for number in range(1, count + 1):
                begin, _ = ends[-1]
                sleep_until(begin + length * self.rng.uniform(*KILLED_WITHIN))
                sources.append(job.kill_one(self.rng).source)
                self.setup.say(f"    minute {number}: a kill, and on from {sources[-1]}")
                sleep_until(begin + length)
                ends.append(job.end_of_step())
            steps = job.step_seconds()
        minutes = [minute_between(*both, steps) for both in zip(ends, ends[1:])]
        return {"minutes": minutes, "sources": sources, "save_every": self.save_every(MINUTES_SAVE_EVERY)}


def sleep_until(moment):
    time.sleep(max(0.0, moment - time.monotonic()))


def minute_between(begin, end, steps):
    """Of ends of steps: moments and numbers."""
    counting = [seconds for step, seconds in steps.items() if begin[1] < step <= end[1]]
    return {"seconds": end[0] - begin[0], "counting": sum(counting)}
