"""A checkpoint cannot be written, and --on-failed-save is stop: the run ends with that error, all ranks together, and
is not started again. With the cause gone it goes on from the checkpoint before, to the weights of a run that was not
disturbed."""

import errno
import os
import random
import shutil

from soak.cases import say
from soak.trainer import (INTERVAL, NEVER_SAID, Fault, checkpoints, problems_of_end, problems_of_text, resumed_step,
                          steps, weights)

# The steps of saves that fail, and a part of the paths of all that each writes: a checkpoint with one before it, and
# the first of the best ones.
SAVES = ((2 * INTERVAL, f"/step-{2 * INTERVAL}."), (5, "/best."))
STOP = ("--on-failed-save", "stop", "--max-restarts", "3")
# What happens at a call of the save, the error of calls that fail, and what is said of it.
SCENES = (("fail", errno.EIO), ("fail-from-here", errno.EIO), ("forbid-folder", errno.EACCES),
          ("fail-from-here", errno.EROFS), ("remove-folder", errno.ENOENT))
MAKE_DIRECTORY, SYNC, RENAME = 5, 3, 6  # calls, as tests/support/file_faults.h has them


def calls_of_save(reference, part):
    """The numbers of the first and the last of its calls that it cannot do without."""
    files = {file for _, file, path in reference.calls if part in path}
    kinds = [kind for kind, file, path in reference.calls if part in path or (not path and file in files)]
    first = kinds.index(MAKE_DIRECTORY)
    rename = kinds.index(RENAME, first)
    return first + 1, rename - kinds[rename::-1].index(SYNC) + 1


def without_privileges():
    """Before a command, for a process that may not do more than the modes of files say; None: not on this machine."""
    if os.geteuid() != 0:
        return ()
    if not shutil.which("setpriv"):
        return None
    lost = "-dac_override,-dac_read_search"
    return ("setpriv", f"--bounding-set={lost}", f"--inh-caps={lost}")


def problems_of_stop(run, ending, fault, step):
    problems = [f"it says '{text}'" for text in (*NEVER_SAID, "training goes on", "again (restart", "did not answer")
                if text in ending.output]
    if ending.code != 1:
        problems.append(f"exit code {ending.code}, expected 1")
    told = f"step {step}: a checkpoint could not be saved, and --on-failed-save is stop: "
    told = [line for line in ending.output.splitlines() if told in line]
    if not any(os.strerror(fault.error) in line for line in told):
        problems.append(f"it does not say that step {step} was not saved: {os.strerror(fault.error)}")
    if fault.action != "remove-folder":
        if not steps(run) or steps(run)[-1] > step + INTERVAL:
            problems.append(f"it ends after the steps {steps(run)}")
        found = [path.name for path in checkpoints(run)]
        if f"step-{step}" in found or f"step-{INTERVAL}" not in found:
            problems.append(f"it leaves {found}")
    return [f"{'; '.join(problems)}:\n{ending.output}"] if problems else []


def problems_of_going_on(run, again, fault, reference, step):
    if fault.action == "remove-folder":  # its record, too; a save that had begun by then made a new one
        if again.code != 0 or weights(run) != reference.weights:
            return [f"in another folder it ends with exit code {again.code} or other weights:\n{again.output}"]
        return problems_of_text(again)
    problems = problems_of_end(run, again, reference.weights)
    if resumed_step(again.output) not in {INTERVAL, 2 * INTERVAL, 3 * INTERVAL} - {step}:
        problems.append(f"it goes on from step {resumed_step(again.output)}:\n{again.output}")
    if "cannot be loaded" in again.output:
        problems.append(f"a checkpoint is damaged:\n{again.output}")
    return problems


def stopped_run(trainer, reference, seed):
    """How many saves failed, and what was wrong."""
    rng = random.Random(seed)
    action, error = SCENES[seed % len(SCENES)]
    step, part = SAVES[seed // len(SCENES) % len(SAVES)]
    prefix = without_privileges() if action == "forbid-folder" else ()
    if prefix is None:
        say("a folder that forbids: not tried, without setpriv root may do all")
        return 0, []
    fault = Fault(action, rng.randint(*calls_of_save(reference, part)), error, part)
    mode = ("--save-sync",) if seed % 2 else ()
    run = trainer.folder / f"stopped-{seed}"
    stopping = trainer.like(prefix, STOP + mode)
    problems = problems_of_stop(run, stopping.run(run, fault), fault, step)
    if run.exists():
        run.chmod(0o700)
    problems += problems_of_going_on(run, stopping.run(run), fault, reference, step)
    if not problems:
        shutil.rmtree(run)
    return 1, [f"run {seed}, {fault}{', --save-sync' if mode else ''}: {problem}" for problem in problems]
