"""A limit on the memory of processes that counts their page cache as well: a control group of Linux."""

import contextlib
import itertools
import os
import pathlib

# Where groups of version 1 and 2 are made, and how their limits are called.
KINDS = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"))


NUMBERS = itertools.count()


def make(limit):
    """A group's folder; none where this user may make none."""
    number = next(NUMBERS)
    for mount, name in KINDS:
        folder = pathlib.Path(mount) / f"fsdp-bench-{os.getpid()}-{number}"
        with contextlib.suppress(OSError):
            folder.mkdir()
            if (folder / name).exists():
                (folder / name).write_text(str(limit))
                return folder
            folder.rmdir()
    return None


@contextlib.contextmanager
def limited_to(limit):
    """Yields the words before a command that let it run in a group that has so many bytes; none where there can be no
    group. The processes end within the scope."""
    folder = make(limit)
    if folder is None:
        yield None
        return
    try:
        yield ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(folder / "cgroup.procs")]
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()
