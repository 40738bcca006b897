"""A disk's time for bytes that are read and written, past the page cache."""

import concurrent.futures
import mmap
import os

PIECE = 4 << 20


class NoDisk(Exception):
    """The folder lies on nothing that can be read and written so; says why."""


class Disk:
    """A file in `folder` of about `size` bytes, which are written once when it is made."""

    def __init__(self, folder, size):
        self.pieces = max(1, round(size / PIECE))
        try:
            self.file = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT, 0o600)
        except OSError as error:
            raise NoDisk(f"{folder} has no direct I/O: {error.strerror}") from error
        self._go_through(os.pwritev, self.pieces * PIECE)

    def move(self, read, written):
        """So many bytes, to the nearest piece, in their order and both at a time: as a step from files does."""
        with concurrent.futures.ThreadPoolExecutor(2) as both:
            moves = [both.submit(self._go_through, os.preadv, read), both.submit(self._go_through, os.pwritev, written)]
            for each in moves:
                each.result()

    def _go_through(self, operation, count):
        with mmap.mmap(-1, PIECE) as buffer:  # begins at a page
            for piece in range(round(count / PIECE)):
                operation(self.file, [buffer], piece % self.pieces * PIECE)

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        os.close(self.file)
