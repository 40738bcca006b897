"""What parts have in common: which cases are to be tried, and how what they find is told."""

import concurrent.futures
import itertools
import time


class Lacking(Exception):
    """This machine has not what a part needs; the text says what that is."""


def say(text):
    print(f"  {text}", flush=True)


def in_parallel(try_one, numbers, jobs, goes_on):
    """The results for each number, as long as `goes_on` says so, some at a time."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = set()
        while True:
            while len(waiting) < jobs and goes_on() and (number := next(numbers, None)) is not None:
                waiting.add(pool.submit(try_one, number))
            if not waiting:
                return
            finished, waiting = concurrent.futures.wait(waiting, return_when="FIRST_COMPLETED")
            yield from (one.result() for one in finished)


def numbers_of(given, seconds):
    """The numbers of the cases to try, and whether the next may begin."""
    if given.only is not None:
        return iter([given.only]), lambda: True
    if given.cases:
        return iter(range(given.seed, given.seed + given.cases)), lambda: True
    end = time.monotonic() + seconds
    return itertools.count(given.seed), lambda: time.monotonic() < end
