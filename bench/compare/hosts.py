"""Hosts on this machine, as far as a network goes: network namespaces joined by cables of a given rate.

They have no name and live as long as this process, so nothing is left behind however it ends. Needs root, iproute2 and
the kernel's token bucket filter, tbf.
"""

import shutil
import statistics
import subprocess
import time

PROGRAMS = ("ip", "tc", "unshare", "nsenter")
CABLE = "cable"  # a host's interface
# No more than this within this time is quiet.
QUIET_BYTES, QUIET_SECONDS = 10_000, 0.05


def address(host):
    return f"10.0.0.{host + 1}"


class NoHosts(Exception):
    """They cannot be made here; says why."""


def must_run(*command):
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        raise NoHosts(f"{' '.join(command)}: {ended.stderr.strip()}")


class Hosts:
    """A place for ranks, equally many on each host, one after another."""

    def __init__(self, count, ranks_of_host=1):
        self.ranks_of_host = ranks_of_host
        missing = [program for program in PROGRAMS if not shutil.which(program)]
        if missing:
            raise NoHosts(f"these programs were not found: {', '.join(missing)}. Install iproute2 and util-linux.")
        self.holders = []
        try:
            for _ in range(count):
                self.holders.append(self._new_host())
            self._connect(count)
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

    def _run_in(self, host, *command):
        must_run(*self._inside(host), *command)

    def _join(self, host, other, other_end):
        """A cable from a host to an interface in another namespace, which has this name there."""
        peer = str(self.holders[other].pid)
        self._run_in(host, "ip", "link", "add", CABLE, "type", "veth", "peer", "name", other_end, "netns", peer)

    def _set_up(self, host):
        self._run_in(host, "ip", "link", "set", "lo", "up")
        self._run_in(host, "ip", "address", "add", f"{address(host)}/24", "dev", CABLE)
        # IPv4 alone: Gloo takes an interface's first address, and IPv6's is not usable at once.
        self._run_in(host, "ip", "link", "set", CABLE, "addrgenmode", "none", "up")

    def _limit(self, host, interface, megabits):
        """What leaves by the interface. A burst is a millisecond's worth, which is little beside what is measured, and
        enough for a clock that is late; or a few packets."""
        burst = max(32, 128 * megabits // 1000)
        shaping = f"tbf rate {megabits}mbit burst {burst}kb latency 100ms".split()
        self._run_in(host, "tc", "qdisc", "add", "dev", interface, "root", *shaping)

    def _inside(self, host):
        return ["nsenter", f"--net=/proc/{self.holders[host].pid}/ns/net"]

    def prefix(self, rank):
        return self._inside(rank // self.ranks_of_host)

    def variables(self, rank, ranks):
        return {
            "LOCAL_RANK": rank % self.ranks_of_host,
            "LOCAL_WORLD_SIZE": self.ranks_of_host,
            "MASTER_ADDR": address(0),
            "GLOO_SOCKET_IFNAME": CABLE,
        }

    def settle(self, processes):
        """Returns when the cable is quiet: what one contestant left in its queues is not received by the next."""
        before, now = None, self.received(processes)
        while before is None or now > before + QUIET_BYTES:
            time.sleep(QUIET_SECONDS)
            before, now = now, self.received(processes)

    def received(self, processes):
        """The bytes that a host has received over its cable."""
        return statistics.fmean(map(cable_bytes, processes))

    def end(self):
        for holder in self.holders:
            holder.communicate("")

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.end()


class TwoHosts(Hosts):
    """`gigabits` a second are the cable's, in each direction."""

    def __init__(self, gigabits, ranks_of_host=1):
        self.megabits = 1000 * gigabits
        super().__init__(2, ranks_of_host)

    def _connect(self, count):
        self._join(0, 1, CABLE)
        for host in range(count):
            self._set_up(host)
            self._limit(host, CABLE, self.megabits)


class HostsOnASwitch(Hosts):
    """Each has a cable to a switch. `megabits` a second are a cable's, in each direction."""

    def __init__(self, count, megabits):
        self.megabits = megabits
        super().__init__(count)

    def _connect(self, count):
        self.holders.append(self._new_host())  # the switch: the last one, with no rank
        self._run_in(count, "ip", "link", "add", "switch", "type", "bridge")
        self._run_in(count, "ip", "link", "set", "switch", "up")
        for host in range(count):
            port = f"port{host}"
            self._join(host, count, port)
            self._run_in(count, "ip", "link", "set", port, "master", "switch", "up")
            self._set_up(host)
            self._limit(host, CABLE, self.megabits)
            self._limit(count, port, self.megabits)


def cable_bytes(process, field=0):
    """What came over the cable to the host of this process so far: proc_net(5), the first number after the name."""
    with open(f"/proc/{process}/net/dev") as interfaces:
        cable = next(line for line in interfaces if line.strip().startswith(f"{CABLE}:"))
    return int(cable.split(":")[1].split()[field])


def sent_bytes(process):
    """What the host of this process sent so far: the ninth number."""
    return cable_bytes(process, field=8)
