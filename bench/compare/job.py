"""Contestants as processes: their ranks are started, asked, and ended."""

import contextlib
import json
import os
import random
import socket
import subprocess
import threading

ANSWER_SECONDS = 900  # a rank that takes longer is stuck
END_SECONDS = 60
FIRST_PORT = 10_000  # below it are services with known ports
LOG_TAIL = 2000  # characters


class ContestantFailed(Exception):
    """One of a contestant's ranks ended or did not answer; says what the ranks wrote."""


def free_port():
    """A rank listens there seconds later. Until then, the system must not give the port to another program that asks
    for any port: so it lies below those of /proc/sys/net/ipv4/ip_local_port_range."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as ports:
        first = int(ports.read().split()[0])
    while True:
        port = random.randrange(FIRST_PORT, max(first, 2 * FIRST_PORT))
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class OneHost:
    """All ranks on this machine, over its loopback interface."""

    def prefix(self, rank):
        return []

    def variables(self, rank, ranks):
        return {
            "LOCAL_RANK": rank,
            "LOCAL_WORLD_SIZE": ranks,
            "MASTER_ADDR": "127.0.0.1",
            "GLOO_SOCKET_IFNAME": "lo",
        }

    def settle(self, processes):
        """There is no network whose queues could still be full."""

    def received(self, processes):
        """Bytes over a network between hosts, so far, per process."""
        return 0


class Rank:
    """One process. It sleeps between questions, so that others may be measured meanwhile."""

    def __init__(self, command, variables, log):
        self.log = log
        with open(log, "w") as errors:
            self.process = subprocess.Popen(
                command,
                env=os.environ | variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def send(self, question):
        try:
            print(json.dumps(question), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass  # it has ended; that it does not answer is seen next

    def receive(self):
        """Its answer; none when it ended instead."""
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def said(self):
        with open(self.log) as log:
            return log.read()[-LOG_TAIL:].strip()


class Job:
    """The ranks of one contestant. `command` may hold {rank}; ranks see it as a launcher would set it."""

    def __init__(self, name, command, ranks, scratch, place=OneHost()):
        self.name = name
        port = free_port()
        common = {"WORLD_SIZE": ranks, "MASTER_PORT": port, "OMP_NUM_THREADS": 1, "MKL_NUM_THREADS": 1}
        self.ranks = []
        for rank in range(ranks):
            variables = common | {"RANK": rank} | place.variables(rank, ranks)
            words = place.prefix(rank) + [word.replace("{rank}", str(rank)) for word in command]
            log = scratch / f"{name.replace(' ', '_')}.{port}.{rank}.log"
            self.ranks.append(Rank(words, {key: str(value) for key, value in variables.items()}, log))
        try:
            self._answers()
        except ContestantFailed:
            self.kill()
            raise

    def ask(self, do, **details):
        """Every rank's answer, in rank order. All of them work on the question at the same time."""
        for rank in self.ranks:
            rank.send({"do": do} | details)
        return self._answers()

    def processes(self):
        return [rank.process.pid for rank in self.ranks]

    def kill(self):
        for rank in self.ranks:
            rank.kill()

    def end(self):
        for rank in self.ranks:
            rank.process.stdin.close()
        try:
            for rank in self.ranks:
                rank.process.wait(END_SECONDS)
        finally:
            self.kill()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.kill() if error else self.end()

    def _answers(self):
        clock = threading.Timer(ANSWER_SECONDS, self.kill)
        clock.start()
        try:
            answers = [rank.receive() for rank in self.ranks]
        finally:
            clock.cancel()
        if None in answers:
            raise ContestantFailed(self._failure(answers))
        return answers

    def _failure(self, answers):
        silent = [str(number) for number, answer in enumerate(answers) if answer is None]
        said = "\n".join(f"--- rank {number} wrote:\n{rank.said()}" for number, rank in enumerate(self.ranks))
        return f"{self.name}: no answer from rank {', '.join(silent)} of {len(self.ranks)}.\n{said}"
