"""Two hosts on this machine, as far as a network goes: two network namespaces joined by a cable of a given rate.

They have no name and live as long as this process, so nothing is left behind however it ends. Needs root, iproute2 and
the kernel's token bucket filter, tbf.
"""

import shutil
import statistics
import subprocess
import time

PROGRAMS = ("ip", "tc", "unshare", "nsenter")
# No more than this within this time is quiet.
QUIET_BYTES, QUIET_SECONDS = 10_000, 0.05
ADDRESSES = ("10.0.0.1", "10.0.0.2")


class NoHosts(Exception):
    """They cannot be made here; says why."""


def must_run(*command):
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        raise NoHosts(f"{' '.join(command)}: {ended.stderr.strip()}")


class TwoHosts:
    """A place for two ranks, one on each host. `gigabits` a second are the cable's, in each direction."""

    def __init__(self, gigabits):
        missing = [program for program in PROGRAMS if not shutil.which(program)]
        if missing:
            raise NoHosts(f"these programs were not found: {', '.join(missing)}. Install iproute2 and util-linux.")
        self.holders = []
        try:
            self.holders = [self._new_host() for _ in ADDRESSES]
            self._connect(gigabits)
        except NoHosts:
            self.end()
            raise

    def _new_host(self):
        """A process that keeps a namespace until its input ends, which it does with this process."""
        command = ["unshare", "--net", "sh", "-c", "echo made && read end"]
        holder = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if holder.stdout.readline() != "made\n":
            raise NoHosts(f"no network namespace can be made here: {holder.stderr.read().strip()}")
        return holder

    def _in(self, host):
        return ["nsenter", f"--net=/proc/{self.holders[host].pid}/ns/net"]

    def _connect(self, gigabits):
        peer = str(self.holders[1].pid)
        must_run(*self._in(0), "ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", peer)
        for host, address in enumerate(ADDRESSES):
            must_run(*self._in(host), "ip", "link", "set", "lo", "up")
            must_run(*self._in(host), "ip", "address", "add", f"{address}/24", "dev", "cable")
            # IPv4 alone: Gloo takes an interface's first address, and IPv6's is not usable at once.
            must_run(*self._in(host), "ip", "link", "set", "cable", "addrgenmode", "none", "up")
            # A burst is a millisecond's worth: little beside a step, enough for a clock that is late.
            shaping = f"tbf rate {gigabits}gbit burst {128 * gigabits}kb latency 100ms".split()
            must_run(*self._in(host), "tc", "qdisc", "add", "dev", "cable", "root", *shaping)

    def prefix(self, rank):
        return self._in(rank)

    def variables(self, rank, ranks):
        return {
            "LOCAL_RANK": 0,
            "LOCAL_WORLD_SIZE": 1,
            "MASTER_ADDR": ADDRESSES[0],
            "GLOO_SOCKET_IFNAME": "cable",
        }

    def settle(self, processes):
        """Returns when the cable is quiet: what one contestant left in its queues is not received by the next."""
        before, now = None, self.received(processes)
        while before is None or now > before + QUIET_BYTES:
            time.sleep(QUIET_SECONDS)
            before, now = now, self.received(processes)

    def received(self, processes):
        """Bytes over the cable, so far, per process."""
        return statistics.fmean(map(cable_bytes, processes))

    def end(self):
        for holder in self.holders:
            holder.communicate("")

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.end()


def cable_bytes(process):
    """What came over the cable to the host of this process so far: proc_net(5), the first number after the name."""
    with open(f"/proc/{process}/net/dev") as interfaces:
        cable = next(line for line in interfaces if line.strip().startswith("cable:"))
    return int(cable.split(":")[1].split()[0])
