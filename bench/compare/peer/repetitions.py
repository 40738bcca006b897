"""How often, and for how long: what a contestant does when it is asked for the time of an operation, as in
bench/contestants/repetitions.h."""

import time

from compare.peer.conversation import seconds_of

ELEMENT_BYTES = 4  # fp32
MOMENT_SECONDS = 0.02


def compute_for_a_moment():
    """So that the system has given each rank a core, as in training."""
    end = time.perf_counter() + MOMENT_SECONDS
    while time.perf_counter() < end:
        pass


def measure(command, operation):
    """First computes for a moment. Then once unmeasured, so that memory is there; then the seconds of each
    repetition."""
    compute_for_a_moment()
    operation()
    return {"seconds": [seconds_of(operation) for _ in range(command["repetitions"])]}
