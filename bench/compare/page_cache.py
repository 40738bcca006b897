"""Files without the page cache: what of them lies there is given up, so that the next read is one from the disk."""

import os

from compare.processes import disk_traffic


def files_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def bytes_in(folder):
    return sum(path.stat().st_size for path in files_in(folder))


def give_up(folder):
    """As far as the system does so: it keeps pages that are not on the disk yet, and all of a file system in memory."""
    for path in files_in(folder):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def read_from_disk(processes):
    """Bytes, of all of them so far."""
    return sum(disk_traffic(process)[0] for process in processes)
