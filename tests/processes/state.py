"""The state in which a parent starts a program: streams that are closed, signals that are ignored or blocked."""

import dataclasses
import itertools
import os
import resource
import signal
import subprocess

STREAMS = (0, 1, 2)
SUBSETS = [subset for size in STREAMS for subset in itertools.combinations(STREAMS, size + 1)]


@dataclasses.dataclass(frozen=True)
class State:
    closed: tuple = ()
    ignored: tuple = ()
    blocked: tuple = ()
    stack: int = 0  # the limit in bytes, 0 for what this process has

    def enter(self):
        """In the new process, before the program is executed."""
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number in self.ignored:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, self.blocked)
        if self.stack:
            resource.setrlimit(resource.RLIMIT_STACK, (self.stack, self.stack))
        for stream in self.closed:
            os.close(stream)

    def start(self, command, output, **more):
        """The process, with its outputs, where they are not closed, in the file `output`."""
        return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                preexec_fn=self.enter, **more)


# What the hostile generator draws from.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE, signal.SIGSEGV)


def random_state(rng):
    """Mostly as programs are started."""
    closed = rng.choice(SUBSETS) if rng.random() < 0.3 else ()
    ignored = (signal.SIGCHLD,) if rng.random() < 0.3 else ()
    blocked = tuple(rng.sample(SIGNALS, rng.randint(1, len(SIGNALS)))) if rng.random() < 0.3 else ()
    return State(closed, ignored, blocked)
