"""Saves and loads of a model with AdamW's moments, in turns: beside plain files and PyTorch's, on other numbers of
ranks, and beside training."""

import contextlib
import dataclasses
import os
import shutil

from compare.contestants import Contestant, sharded
from compare.job import Job
from compare.page_cache import bytes_in, give_up, read_from_disk
from compare.turns import rounds_of

PLAIN_FILES = "plain files"
PEER = "PyTorch DCP"
RANKS = (1, 2, 3, 4)  # that load
SAVED_ON = 2
EVERY, QUICK_EVERY = 10, 3  # steps between saves


def slowest(answers):
    return max(answer["seconds"] for answer in answers)


def load_from_disk(job, folder, command="load"):
    """Its seconds, and which share of the bytes came from the disk; the page cache may have kept the others."""
    give_up(folder)
    before = read_from_disk(job.processes())
    seconds = slowest(job.ask(command, folder=str(folder)))
    return seconds, min(1.0, (read_from_disk(job.processes()) - before) / bytes_in(folder))


class Saver:
    """A contestant, and what it has saved: each time to a new folder, the one before is removed afterwards."""

    def __init__(self, job, folder):
        self.job, self.folder = job, folder
        self.saves = 0
        folder.mkdir()

    def newest(self):
        return self.folder / str(self.saves)

    def save(self, size):
        """Of plain files `size` bytes."""
        before = self.newest()
        self.saves += 1
        os.sync()  # what others wrote is none of its business
        seconds = slowest(self.job.ask("save", folder=str(self.newest()), bytes=size))
        shutil.rmtree(before, ignore_errors=True)
        return seconds

    def load(self):
        return load_from_disk(self.job, self.newest())

    def resume(self):
        """Into memory that has held nothing yet."""
        return load_from_disk(self.job, self.newest(), "resume")


def start(setup, stack, contestant, ranks):
    setup.say(f"    starts {contestant.name}, {ranks} ranks")
    return stack.enter_context(Job(contestant.name, contestant.command, ranks, setup.scratch))


def start_training(setup, stack, contestant, ranks):
    """With all of the optimizer's state, which the first step makes."""
    job = start(setup, stack, contestant, ranks)
    job.ask("build")
    job.ask("steps", count=1)
    return job


def start_savers(setup, stack, work, folder):
    """Ours, which decides how many bytes the others have to save, first."""
    ours = sharded(setup, work, setup.backends[0])
    peer = Contestant(PEER, setup.module("peer.checkpoints") + work.arguments(setup))
    jobs = [start_training(setup, stack, ours, work.ranks)]
    jobs.append(stack.enter_context(Job(PLAIN_FILES, setup.module("plain_files"), work.ranks, setup.scratch)))
    jobs.append(start_training(setup, stack, peer, work.ranks))
    return [Saver(job, folder / str(number)) for number, job in enumerate(jobs)]


def compare_saves(setup, work, folder):
    """By contestant the "bytes" of a checkpoint, and by round the seconds of a "save", of a "load" and, but of
    PyTorch's, of a "resume", and the share that the load read "from disk"."""
    with contextlib.ExitStack() as stack:
        savers = start_savers(setup, stack, work, folder)
        size = 0
        for saver in savers:  # once unmeasured, so that connections and memory are there
            saver.save(size)
            saver.load()
            size = size or bytes_in(saver.newest())
        found = {saver.job.name: {"bytes": bytes_in(saver.newest()), "save": [], "load": [], "from disk": []}
                 for saver in savers}
        resuming = [saver for saver in savers if saver.job.name != PEER]
        for saver in resuming:
            saver.resume()  # once unmeasured, too
            found[saver.job.name]["resume"] = []
        for number, in_turn in rounds_of(savers, setup.quick):
            setup.say(f"    round {number}")
            for saver in in_turn:
                found[saver.job.name]["save"].append(saver.save(size))
            for saver in in_turn:
                seconds, share = saver.load()
                found[saver.job.name]["load"].append(seconds)
                found[saver.job.name]["from disk"].append(share)
            for saver in in_turn:
                if saver in resuming:
                    found[saver.job.name]["resume"].append(saver.resume()[0])
    return found


def load_on_ranks(setup, work, folder):
    """By round the seconds in which jobs of each number of ranks load one checkpoint to go on from it."""
    with contextlib.ExitStack() as stack:
        jobs = {}
        for ranks in RANKS:
            small = dataclasses.replace(work, ranks=ranks, batch=1)
            starts = start_training if ranks == SAVED_ON else start
            jobs[ranks] = starts(setup, stack, sharded(setup, small, setup.backends[0]), ranks)
        checkpoint = folder / "for-others"
        jobs[SAVED_ON].ask("save", folder=str(checkpoint))
        for job in jobs.values():
            load_from_disk(job, checkpoint, "resume")  # unmeasured, as above
        found = {ranks: [] for ranks in RANKS}
        for number, in_turn in rounds_of(RANKS, setup.quick):
            setup.say(f"    round {number}")
            for ranks in in_turn:
                found[ranks].append(load_from_disk(jobs[ranks], checkpoint, "resume")[0])
    return [{"ranks": ranks, "seconds": seconds} for ranks, seconds in found.items()]


def save_beside_steps(setup, work, folder):
    """By round the seconds of steps "without" a save and of as many "beside" one, for how long that kept them waiting,
    and those until its commit; of the rank for which each took longest."""
    every = QUICK_EVERY if setup.quick else EVERY
    found = {"without": [], "beside": [], "paused": [], "until commit": []}
    with contextlib.ExitStack() as stack:
        job = start_training(setup, stack, sharded(setup, work, setup.backends[0]), work.ranks)

        def without():
            answers = job.ask("steps", count=every)
            found["without"].append(max(sum(answer["seconds"]) for answer in answers))

        def beside():
            answers = job.ask("steps beside a save", folder=str(folder / "beside"), count=every)
            found["beside"].append(slowest(answers))
            for name in ("paused", "until commit"):
                found[name].append(max(answer[name] for answer in answers))

        job.ask("steps beside a save", folder=str(folder / "beside"), count=1)  # unmeasured, as above
        for number, in_turn in rounds_of([without, beside], setup.quick):
            setup.say(f"    round {number}")
            for turn in in_turn:
                turn()
    return found | {"every": every}
