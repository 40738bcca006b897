"""Half of a run's ranks are killed one after the other, or a host of two, and come back: the final weights are those of
a run that nobody disturbed. Each case is one of SCENES, in turn, with random moments and ranks."""

import pathlib
import random
import signal
import statistics
import tempfile

from soak import killed_hosts
from soak.cases import Lacking, numbers_of, say
from soak.killed_job import GOES_ON_LATER, RANKS, Job, Stuck, moment, signal_all
from soak.trainer import NEVER_SAID, checkpoints, records


def elastic(job, rng):
    """On one host: three ranks, two, and four again from a checkpoint on, which may be asked for."""
    launcher = job.start(job.command("--elastic", f"2:{RANKS}", save_every=100))
    job.wait_for_ranks(RANKS)
    for _ in range(2):
        job.kill_one(rng, job.ranks)
    if rng.random() < 0.5:
        signal_all([launcher.pid], signal.SIGUSR2)
    job.wait_for_ranks(RANKS)
    moment(rng)
    return job.stop([launcher.pid], launcher)


def hot_restart(job, rng):
    """On one host, from memory."""
    launcher = job.start(job.command("--ranks", str(RANKS), "--max-restarts", "10", "--hot-restart"))
    job.wait_for_ranks(RANKS)
    for _ in range(2):
        job.kill_one(rng, job.ranks)
    moment(rng)
    return job.stop([launcher.pid], launcher)


def nothing_lacks():
    return ""


MOST_TOLD = 20_000  # characters of what a case that failed has said

# By name: how it is disturbed, and why that cannot be tried here (empty: it can). ctest has one of each (tests/crash).
SCENES = {
    "elastic": (elastic, nothing_lacks),
    "hot-restart": (hot_restart, nothing_lacks),
    "torchrun": (killed_hosts.ranks_of_both, killed_hosts.torchrun_lacking),
    "host": (killed_hosts.host, killed_hosts.torchrun_lacking),
    "store": (killed_hosts.store, killed_hosts.torchrun_lacking),
    "requeue": (killed_hosts.requeue, killed_hosts.lacking),
}


def scene_of(number):
    return list(SCENES)[number % len(SCENES)]


def shards(run, step):
    """Of a checkpoint, by name: parameters and optimizer state."""
    return {path.name: path.read_bytes() for path in (run / f"step-{step}").glob("shard-*")}


def losses(run):
    return [(record["step"], record["loss"]) for record in records(run) if "event" not in record]


def problems_of_end(job):
    """The run against one that does as many steps undisturbed."""
    found = checkpoints(job.run)
    if not found:
        return ["it left no checkpoint"]
    whole, step = job.folder / "whole", int(found[0].name[5:])
    undisturbed = job.start(job.command("--ranks", str(RANKS), run=whole, steps=step))
    job.wait_while_it_steps(undisturbed, whole)
    # LibTorch itself names functions of std:: where a store is lost, and torchrun may die of its own store's thread when
    # it is ended.
    said = job.said().replace("terminate called without an active exception\nFatal Python error: Aborted", "")
    problems = [f"it says '{text}'" for text in NEVER_SAID if text in said and text != "std::"]
    if len(shards(whole, step)) != RANKS:
        return [*problems, "the run that nobody disturbs failed"]
    if sorted(shards(job.run, step)) != sorted(shards(whole, step)):
        problems.append(f"checkpoint {step} is of other shards: {sorted(shards(job.run, step))}")
    elif shards(job.run, step) != shards(whole, step):
        problems.append(f"checkpoint {step} has other weights than that of the run that nobody disturbed")
    if losses(job.run) != losses(whole):
        problems.append("the record has other steps or losses than that of the run that nobody disturbed")
    return problems


def killed_case(build, number):
    """From where it went on after each kill, with the seconds to the next step; and what was wrong."""
    disturb, _ = SCENES[scene_of(number)]
    say(f"case {number}, {scene_of(number)}:")
    with tempfile.TemporaryDirectory(prefix="fsdp-soak-") as name:
        folder = pathlib.Path(name)
        text = folder / "text.txt"
        text.write_text("".join(f"In the beginning was the word {i}.\n" for i in range(200)))
        job = Job(build, folder, text)
        try:
            code = disturb(job, random.Random(number))
            problems = [] if code == GOES_ON_LATER else [f"its last exit code is {code}"]
            problems += problems_of_end(job)
        except Stuck as stuck:
            problems = [str(stuck)]
        finally:
            job.end()
        if problems:
            problems.append(job.said()[-MOST_TOLD:])
        return job.times, problems


def ranks_killed(given, seconds):
    """One case at a time, as they are timed."""
    numbers, goes_on = numbers_of(given, seconds)
    times, tried, failed, told, why = {}, 0, 0, set(), ""
    while goes_on() and (number := next(numbers, None)) is not None:
        scene = scene_of(number)
        if why := SCENES[scene][1]():
            if scene not in told:
                say(f"{scene}: not tried, {why}")
            told.add(scene)
            continue
        found, problems = killed_case(given.build, number)
        tried += 1
        for source, took in found:
            times.setdefault((scene, source), []).append(took)
        failed += bool(problems)
        for problem in problems:
            say(f"case {number}: {problem}")
    if tried == 0 and why:
        raise Lacking(why)
    for (scene, source), took in sorted(times.items()):
        say(f"{scene}: {statistics.median(took):.2f} s from a kill to the next step, from {source}, "
            f"the median of {len(took)}")
    return sum(map(len, times.values())), failed
