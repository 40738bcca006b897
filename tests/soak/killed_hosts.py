"""Two hosts with two ranks each, of which ranks, launchers and whole hosts are killed: under torchrun, which goes on by
itself, and under a stand-in for SLURM, which starts a batch script again."""

import contextlib
import os
import pathlib
import shutil
import signal

from documents import hosts
from soak.killed_job import GOES_ON_LATER, RANKS, Stuck, end_processes, moment, signal_all

ROOT = pathlib.Path(__file__).resolve().parents[2]
STAND_INS = [ROOT / "tests/soak/stand_ins", ROOT / "tests/documents/stand_ins"]
TORCHRUN = shutil.which("torchrun", path=f"{ROOT / '.venv/bin'}:{os.environ['PATH']}")

lacking = hosts.lacking


def torchrun_lacking():
    return lacking() or ("" if TORCHRUN else "the program torchrun was not found: it comes with PyTorch")


class TwoHosts(hosts.Hosts):
    """And a job on them."""

    def __init__(self, job):
        super().__init__(job.folder)
        self.job = job

    def processes(self, number, found):
        """Of these, those on a host."""
        own = os.readlink(f"/proc/{self.holders[number].pid}/ns/net")
        there = []
        for process in found:
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{process}/ns/net") == own:
                    there.append(process)
        return there

    def ranks(self, number):
        return self.processes(number, self.job.ranks())

    def all_of(self, number):
        return self.processes(number, self.job.processes())


class Torchrun(TwoHosts):
    """An agent on each host. The store of their rendezvous is host 0's. By the variable each start has a store of its
    own: an agent that came later would not find that of the others (PyTorch 2.13)."""

    OPTIONS = ("--no-python --nnodes 1:2 --nproc-per-node 2 --max-restarts 20 --rdzv-backend c10d --rdzv-endpoint "
               "host0:29500 --rdzv-conf last_call_timeout=2,keep_alive_interval=1,keep_alive_max_attempt=5 --").split()

    def start(self, number):
        return self.job.start([*self.enter(number, self.job.folder), TORCHRUN, *self.OPTIONS,
                               *self.job.command("--elastic", f"2:{RANKS}")], FSDP_JOB_SECRET="of this test",
                              TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")

    def start_both(self):
        self.agents = [self.start(number) for number in range(len(hosts.NAMES))]

    def stop(self):
        """Agents have exit codes of their own; the checkpoint that the ranks leave says the rest."""
        signal_all([agent.pid for agent in self.agents], signal.SIGTERM)
        for agent in self.agents:
            self.job.wait_for_end(agent, "an agent after SIGTERM")
        return GOES_ON_LATER


def ranks_of_both(job, rng):
    """A rank of each host is killed, one after the other."""
    with Torchrun(job) as two:
        two.start_both()
        for number in rng.sample(range(2), 2):
            job.wait_for_ranks(RANKS)
            job.kill_one(rng, lambda number=number: two.ranks(number), f", on host {number},")
        job.wait_for_ranks(RANKS)
        return two.stop()


def host(job, rng):
    """Host 1 is killed; the job goes on without it until it is there again."""
    with Torchrun(job) as two:
        two.start_both()
        job.wait_for_ranks(RANKS)
        job.wait_for_checkpoint()
        moment(rng)
        job.kill(two.all_of(1), "host 1 killed")
        two.agents[1] = two.start(1)
        job.wait_for_ranks(RANKS)
        moment(rng)
        return two.stop()


def store(job, rng):
    """Host 0 is killed, with the store of torchrun's rendezvous. Host 1's agent ends by itself, and both are started
    anew."""
    with Torchrun(job) as two:
        two.start_both()
        job.wait_for_ranks(RANKS)
        job.wait_for_checkpoint()
        moment(rng)
        with job.until_next_step("host 0 killed, which has the store"):
            end_processes(two.all_of(0))
            job.wait_for_end(two.agents[1], "the agent that has lost its store")
            two.start_both()
        job.wait_for_ranks(RANKS)
        moment(rng)
        return two.stop()


class Slurm(TwoHosts):
    """In the place of its controller: starts the batch script, and starts it again where it asks for that, or where a
    node was lost, as --requeue says."""

    SCRIPT = """
code=0
srun "$@" || code=$?
if [ $code -eq 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $code
"""

    def start(self):
        self.requeued = self.job.folder / "requeued"
        self.requeued.unlink(missing_ok=True)
        path = ":".join([*map(str, STAND_INS), os.environ["PATH"]])
        self.script = self.job.start(
            [*self.enter(0, self.job.folder), "bash", "-eu", "-c", self.SCRIPT, "batch-script", *self.job.command()],
            PATH=path, SLURM_JOB_ID="1", FSDP_DOCUMENT_HOSTS=self.variable(), FSDP_SOAK_REQUEUED=str(self.requeued),
            FSDP_JOB_SECRET="of this test")

    def preempt(self):
        """As `--signal USR1@300` does, to each task."""
        with self.job.until_next_step("SIGUSR1 to all", is_timed=False):
            signal_all(self.job.ranks(), signal.SIGUSR1)
            code = self.job.wait_for_end(self.script, "the batch script after SIGUSR1")
            if code != GOES_ON_LATER or not self.requeued.exists():
                raise Stuck(f"the batch script ended with exit code {code}, and asked for no requeue")
            self.start()

    def lose_store(self):
        """With host 0, where the batch script is, too. The other host's ranks end by themselves."""
        others = self.ranks(1)
        with self.job.until_next_step("host 0 killed, which has the store"):
            end_processes(self.all_of(0))
            self.job.wait_for_end(self.script, "the batch script")
            self.job.wait(lambda: not set(others) & set(self.job.ranks()), "end of the other host's ranks",
                          may_have_ended=True)
            self.start()


def requeue(job, rng):
    """Host 0 is killed, or the job's time is over: in both cases the batch script is started again."""
    with Slurm(job) as two:
        two.start()
        job.wait_for_ranks(RANKS)
        for happens in rng.sample([two.lose_store, two.preempt], 2):
            job.wait_for_ranks(RANKS)
            job.wait_for_checkpoint()
            moment(rng)
            happens()
        moment(rng)
        return job.stop(job.ranks(), two.script)
