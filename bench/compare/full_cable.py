"""Runs a rank of another contestant and, while that works, fills the cable to the other rank in both directions.

What its steps then take longer is the network's own work on the processors: no overlap can hide it where they all
compute.

    python -m compare.full_cable COMMAND...
"""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time

PIECE = 1 << 20  # bytes
PATIENCE_SECONDS = 60


def connect():
    """To the other of two ranks, where the launcher's variables say."""
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if os.environ["RANK"] == "0":
        with socket.create_server(address) as server:
            server.settimeout(PATIENCE_SECONDS)
            return server.accept()[0]
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return socket.create_connection(address)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def fill(connection, working):
    piece = bytes(PIECE)
    with contextlib.suppress(OSError):  # the other rank has ended
        while working.wait():
            connection.sendall(piece)


def empty(connection):
    piece = bytearray(PIECE)
    with contextlib.suppress(OSError):
        while connection.recv_into(piece):
            pass


def main():
    connection = connect()
    connection.settimeout(None)
    working = threading.Event()
    for work in ((fill, connection, working), (empty, connection)):
        threading.Thread(target=work[0], args=work[1:], daemon=True).start()
    with subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as contestant:
        print(contestant.stdout.readline(), end="", flush=True)
        for question in sys.stdin:
            working.set()
            print(question, end="", file=contestant.stdin, flush=True)
            print(contestant.stdout.readline(), end="", flush=True)
            working.clear()


if __name__ == "__main__":
    main()
