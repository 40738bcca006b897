"""What was measured on, and with what."""

import datetime
import os
import platform
import subprocess

from compare.setup import BENCH


def cpu_model():
    with open("/proc/cpuinfo") as lines:
        return next(
            (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine()
        )


def memory_gib():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def torch_version(setup):
    return subprocess.check_output(setup.module("peer.version"), text=True).strip()


def revision():
    ended = subprocess.run(["git", "-C", str(BENCH), "describe", "--always", "--dirty"], capture_output=True, text=True)
    return ended.stdout.strip() or "unknown"


def describe(setup):
    return {
        "CPU": cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory_gib():.0f} GiB",
        "kernel": platform.release(),
        "PyTorch and LibTorch": torch_version(setup),
        "Python": platform.python_version(),
        "fsdp": revision(),
        "backends": ", ".join(setup.backends)
        + "".join(f" (not in this build: {name})" for name in setup.absent_backends),
        "threads a rank": "1",
        "load before": f"{os.getloadavg()[0]:.2f}",
        "date": datetime.date.today().isoformat(),
    }
