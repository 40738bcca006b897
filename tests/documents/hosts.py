"""Two hosts on this machine, as far as networks and names go: namespaces with a cable between them.

Each is held by a process that sleeps; when these end, nothing is left.
"""

import os
import pathlib
import shutil
import subprocess
import time

NAMES = ["host0", "host1"]


def lacking():
    """Why hosts cannot be made here; empty where they can."""
    for program, package in (("ip", "iproute2"), ("nsenter", "util-linux"), ("unshare", "util-linux")):
        if not shutil.which(program):
            return f"the program {program} was not found (Debian: {package})"
    if subprocess.run(["unshare", "--net", "--uts", "--mount", "true"], capture_output=True).returncode != 0:
        return "no namespaces can be made here: it wants root"
    return ""


class Hosts:
    def __init__(self, folder):
        names = folder / "hosts"
        names.write_text("127.0.0.1 localhost\n" + "".join(f"10.0.0.{i + 1} {n}\n" for i, n in enumerate(NAMES)))
        sleep = ["unshare", "--net", "--uts", "--mount", "sleep", "infinity"]
        self.holders = [subprocess.Popen(sleep) for _ in NAMES]
        for holder in self.holders:
            self._wait_until_separate(holder)
        self._run(1, f"ip link add cable type veth peer name cable netns {self.holders[0].pid}")
        for number, name in enumerate(NAMES):
            self._run(number, f"ip addr add 10.0.0.{number + 1}/24 dev cable")
            self._run(number, "ip link set cable up && ip link set lo up")
            self._run(number, f"mount --bind {names} /etc/hosts && hostname {name}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for holder in self.holders:
            holder.kill()
            holder.wait()

    @staticmethod
    def _wait_until_separate(holder):
        own = os.readlink("/proc/self/ns/mnt")
        while os.readlink(f"/proc/{holder.pid}/ns/mnt") == own:  # the last of the three to be made
            if holder.poll() is not None:
                raise RuntimeError("a host's process has ended")
            time.sleep(0.01)

    def _run(self, number, command):
        subprocess.run([*self.enter(number), "sh", "-c", command], check=True)

    def enter(self, number, folder=pathlib.Path("/")):
        """What a command begins with that is to run on this host."""
        return ["nsenter", f"--target={self.holders[number].pid}", "--net", "--uts", "--mount", f"--wd={folder}"]

    def variable(self):
        """For the stand-ins: where the hosts are."""
        return ",".join(f"{name}={holder.pid}" for name, holder in zip(NAMES, self.holders))
