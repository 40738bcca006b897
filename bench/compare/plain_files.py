"""Writes and syncs a plain file, or reads it: one of several processes that move together as many bytes as a checkpoint
has."""

import mmap
import os
import pathlib

from compare.peer.conversation import answer, seconds_of, take_over_output

PIECE = 1 << 20


class Bytes:
    """Memory that the system gives when it is first written to."""

    def __init__(self, count):
        self.view = memoryview(mmap.mmap(-1, count, flags=mmap.MAP_PRIVATE))

    def fill(self):
        """Now it is there, as a model's is that has been trained."""
        piece = os.urandom(PIECE)
        for at in range(0, len(self.view), PIECE):
            self.view[at : at + PIECE] = piece[: min(PIECE, len(self.view) - at)]
        return self

    def write(self, path):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        at = 0
        while at < len(self.view):
            at += os.write(file, self.view[at:])
        os.fsync(file)
        os.close(file)

    def read(self, path):
        file = os.open(path, os.O_RDONLY)
        at = 0
        while at < len(self.view):
            count = os.preadv(file, [self.view[at:]], at)
            if count == 0:
                raise EOFError(f"{path} ends after {at} bytes, expected {len(self.view)}")
            at += count
        os.close(file)


class Files:
    """A folder is for all ranks together."""

    def __init__(self):
        self.bytes = None

    def path(self, command):
        return pathlib.Path(command["folder"]) / os.environ["RANK"]

    def save(self, command):
        if self.bytes is None:
            self.bytes = Bytes(command["bytes"] // int(os.environ["WORLD_SIZE"])).fill()
        path = self.path(command)
        path.parent.mkdir(parents=True, exist_ok=True)
        return {"seconds": seconds_of(lambda: self.bytes.write(path))}

    def load(self, command):
        return {"seconds": seconds_of(lambda: self.bytes.read(self.path(command)))}

    def resume(self, command):
        new = Bytes(len(self.bytes.view))
        return {"seconds": seconds_of(lambda: new.read(self.path(command)))}


def main():
    output = take_over_output()
    files = Files()
    answer(output, {"save": files.save, "load": files.load, "resume": files.resume})


if __name__ == "__main__":
    main()
