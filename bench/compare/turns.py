"""Contestants side by side, in turns: a few steps of one while the others sleep, then of the next, round after round.
So whatever else the machine does meets all of them alike."""

import contextlib
import statistics
import time

from compare.job import Job, OneHost
from compare.processes import available, resident

WARM_UP_STEPS = 3
STEPS, QUICK_STEPS = 3, 2  # a turn
# The least and the most rounds; of those beyond the least, none begins after so many seconds.
ROUNDS, QUICK_ROUNDS = (3, 7), (2, 2)
ENOUGH_SECONDS = 180
MARGIN = 1.3


def job_steps(job, count):
    """Of each step, the seconds of the slowest rank and the mean of the ranks' losses."""
    answers = job.ask("steps", count=count)
    seconds = [max(of_ranks) for of_ranks in zip(*(answer["seconds"] for answer in answers))]
    losses = [statistics.fmean(of_ranks) for of_ranks in zip(*(answer["losses"] for answer in answers))]
    return seconds, losses


class Turns:
    """`contestants` all started and built, each having taken its first steps; those that the machine has no memory for
    are left out."""

    def __init__(self, setup, contestants, ranks, place=OneHost()):
        self.setup = setup
        self.stack = contextlib.ExitStack()
        self.jobs, self.seconds, self.losses = [], {}, {}
        with self.stack:
            for contestant in contestants:
                self._start(contestant, ranks, place)
            self.stack = self.stack.pop_all()

    def _start(self, contestant, ranks, place):
        if not self._has_room():
            self.setup.say(f"    left out for lack of memory: {contestant.name}")
            return
        job = self.stack.enter_context(Job(contestant.name, contestant.command, ranks, self.setup.scratch, place))
        job.ask("build")
        self.jobs.append(job)
        self.seconds[job.name] = []
        self.losses[job.name] = job_steps(job, WARM_UP_STEPS)[1]

    def _has_room(self):
        """For one more, if it is not much larger than the largest."""
        largest = max((sum(map(resident, job.processes())) for job in self.jobs), default=0)
        return available() > MARGIN * largest

    def take(self):
        """All the rounds that there is time for."""
        (least, most), steps = (QUICK_ROUNDS, QUICK_STEPS) if self.setup.quick else (ROUNDS, STEPS)
        end = time.monotonic() + ENOUGH_SECONDS
        for number in range(1, most + 1):
            if number > least and time.monotonic() > end:
                break
            self._take_round(number, steps)

    def _take_round(self, number, steps):
        for job in self.jobs:
            self.setup.say(f"    round {number}: {job.name}")
            seconds, losses = job_steps(job, steps)
            self.seconds[job.name] += seconds
            self.losses[job.name] += losses

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        return self.stack.__exit__(*problem)


def compare_steps(setup, contestants, ranks, place=OneHost()):
    """By contestant: the seconds of all measured steps, their median, and the losses of all steps."""
    with Turns(setup, contestants, ranks, place) as turns:
        turns.take()
    return {
        name: {"median": statistics.median(seconds), "seconds": seconds, "losses": turns.losses[name]}
        for name, seconds in turns.seconds.items()
    }
