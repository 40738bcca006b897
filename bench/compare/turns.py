"""Contestants side by side, in turns: a few steps of one while the others sleep, then of the next, round after round.
So whatever else the machine does meets all of them alike."""

import contextlib
import dataclasses
import statistics
import time

from compare.job import Job, OneHost
from compare.processes import available, resident

WARM_UP_STEPS = 2
# The steps of a turn: as many as the slowest contestant takes in this time, within bounds.
TURN_SECONDS, MOST_STEPS = 1.5, 3
# The least and the most rounds; of those beyond the least, none begins after so many seconds.
ROUNDS, QUICK_ROUNDS = (5, 9), (3, 3)
ENOUGH_SECONDS = 120
MARGIN = 1.3
# Of a pipeline's step: as measured, as its order of passes gives with the times of these passes, and by the formula.
IDLE = ("idle", "idle_of_passes", "idle_formula")


def rounds_of(members, quick, rounds=ROUNDS):
    """For each of the rounds that there is time for its number, and its members in their order: every other round in
    reverse. `rounds`: the least and the most."""
    least, most = QUICK_ROUNDS if quick else rounds
    end = time.monotonic() + ENOUGH_SECONDS
    for number in range(1, most + 1):
        if number > least and time.monotonic() > end:
            return
        yield number, list(members if number % 2 else reversed(members))


@dataclasses.dataclass(frozen=True)
class Taken:
    """Steps that a job took."""

    seconds: list  # of each step, of the slowest rank
    losses: list  # of each step, the mean of the ranks'
    waited: float | None  # seconds that ranks waited per step on average, where they know
    idle: dict  # of pipelines, by name, of each step: mean shares in which ranks ran no pass


def job_steps(job, count):
    answers = job.ask("steps", count=count)
    waited = [answer["waited"] / count for answer in answers if "waited" in answer]
    return Taken(
        seconds=[max(of_ranks) for of_ranks in zip(*(answer["seconds"] for answer in answers))],
        losses=[statistics.fmean(of_ranks) for of_ranks in zip(*(answer["losses"] for answer in answers))],
        waited=statistics.fmean(waited) if waited else None,
        idle={name: answers[0][name] for name in IDLE if name in answers[0]},
    )


class Turns:
    """`contestants` all started and built, each having taken its first steps; those that the machine has no memory for
    are left out.

    `found` has for each contestant its "losses" in all steps, and by round the "seconds" of a step (the median of its
    turn), what a rank "waited" and what it "received" over the place's network per step, in bytes; of pipelines, the
    shares IDLE as well.
    """

    def __init__(self, setup, contestants, ranks, place=OneHost()):
        self.setup = setup
        self.place = place
        self.stack = contextlib.ExitStack()
        self.jobs, self.found = [], {}
        self.slowest = 0
        with self.stack:
            for contestant in contestants:
                self._start(contestant, ranks)
            self.stack = self.stack.pop_all()

    def _start(self, contestant, ranks):
        if not self._has_room():
            self.setup.say(f"    left out for lack of memory: {contestant.name}")
            return
        count = contestant.ranks or ranks
        job = self.stack.enter_context(Job(contestant.name, contestant.command, count, self.setup.scratch, self.place))
        job.ask("build")
        self.jobs.append(job)
        taken = job_steps(job, WARM_UP_STEPS)
        self.found[job.name] = {"losses": taken.losses, "seconds": [], "waited": [], "received": []}
        self.slowest = max(self.slowest, taken.seconds[-1])

    def _has_room(self):
        """For one more, if it is not much larger than the largest."""
        largest = max((sum(map(resident, job.processes())) for job in self.jobs), default=0)
        return available() > MARGIN * largest

    def take(self, rounds=ROUNDS):
        steps = max(1, min(MOST_STEPS, int(TURN_SECONDS / self.slowest)))
        for number, jobs in rounds_of(self.jobs, self.setup.quick, rounds):
            for job in jobs:
                self.setup.say(f"    round {number}: {job.name}")
                self._take_turn(job, steps)

    def _take_turn(self, job, steps):
        self.place.settle(job.processes())
        before = self.place.received(job.processes())
        taken = job_steps(job, steps)
        found = self.found[job.name]
        found["losses"] += taken.losses
        found["seconds"].append(statistics.median(taken.seconds))
        found["waited"].append(taken.waited)
        found["received"].append((self.place.received(job.processes()) - before) / steps)
        for name, shares in taken.idle.items():
            found.setdefault(name, []).append(statistics.median(shares))

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        return self.stack.__exit__(*problem)


def compare_steps(setup, contestants, ranks, place=OneHost()):
    """`Turns.found`, when all have taken their turns."""
    with Turns(setup, contestants, ranks, place) as turns:
        turns.take()
    return turns.found
