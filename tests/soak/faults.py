"""A call of a run fails: training goes on, or ends with an error, as docs/trainer_going_on.md says; and a run that is
started again as it was ends with the weights of one that was not disturbed."""

import errno
import random
import shutil
import subprocess

from soak.trainer import INTERVAL, Fault, problems_of_end, problems_of_text, weights

FAULTS = (("fill-from-here", errno.ENOSPC), ("fail", errno.EDQUOT), ("fail", errno.EIO), ("fail-from-here", errno.EIO),
          ("fail", errno.EACCES), ("fail-from-here", errno.EROFS), ("write-half", 0), ("remove-folder", 0))


def problems_of_fault(trainer, reference, fault, name):
    run = trainer.folder / f"fault-{name}"
    ending = trainer.run(run, fault)
    problems = problems_of_text(ending)
    if ending.code not in (0, 1, 2):
        problems.append(f"exit code {ending.code}:\n{ending.output}")
    if fault.action == "write-half" and ending.code != 0:
        problems.append(f"a short write is no error:\n{ending.output}")
    if ending.code == 0 and fault.action != "remove-folder" and weights(run) != reference.weights:
        problems.append(f"it ended well, with other weights:\n{ending.output}")
    again = trainer.run(run)
    if fault.action == "remove-folder" and again.code == 2 and "no run's" in again.output:
        return problems  # its record went with the folder, and what was written later is left to people
    # A run that is at its end removes no old checkpoints when it is started again.
    problems += problems_of_end(run, again, reference.weights, keeps=ending.code != 0)
    if not problems:
        shutil.rmtree(run)
    return [f"{fault}: {problem}" for problem in problems]


def failing_run(trainer, reference, seed):
    """How many faults were tried, and what was wrong."""
    rng = random.Random(seed)
    action, error = FAULTS[seed % len(FAULTS)]
    fault = Fault(action, rng.randint(1, len(reference.calls)), error)
    return 1, problems_of_fault(trainer, reference, fault, seed)


# In a mount namespace of its own, in which nothing else sees the disk.
FULL_DISK = """
set -u
mount -t tmpfs -o size=300k tmpfs "$1" || exit 77
"${@:2}" > "$1.first" 2>&1; echo $? > "$1.code"
ls -d "$1"/run/step-* > "$1.saved"
mount -o remount,size=100m "$1"
"${@:2}" > "$1.second" 2>&1 || exit 3
cp -r "$1/run" "$1.run"
"""


def full_disk(trainer, reference):
    """A real disk that is full, on which there is room again. What is wrong; None where the machine lets nobody mount."""
    disk = trainer.folder / "disk"
    disk.mkdir()
    command = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", FULL_DISK, "full-disk", str(disk),
               *trainer.command(disk / "run")]
    try:
        done = subprocess.run(command, env=trainer.environment(disk / "run"), capture_output=True, text=True)
    except FileNotFoundError:
        return None
    file = {end: disk.with_name(f"disk.{end}") for end in ("first", "code", "saved", "second", "run")}
    if done.returncode == 77 or not file["code"].exists():
        return None
    output = file["first"].read_text()
    problems = []
    if file["code"].read_text().strip() != "1" or "No space left on device" not in output:
        problems.append(f"a run on a full disk ends with exit code {file['code'].read_text()}:\n{output}")
    if f"/step-{INTERVAL}\n" not in file["saved"].read_text():
        problems.append(f"the checkpoint from before the disk was full is gone:\n{output}")
    if done.returncode != 0:
        return [*problems, f"with room again it fails:\n{file['second'].read_text()}"]
    if weights(file["run"]) != reference.weights:
        problems.append("with room again it ends with other weights")
    if leftovers := [path.name for path in file["run"].iterdir() if ".partial" in path.name]:
        problems.append(f"left behind: {leftovers}")
    return problems
