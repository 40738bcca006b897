"""What was measured on, and with what."""

import datetime
import os
import platform
import subprocess

from compare.setup import BENCH

BF16_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")  # of x86 and ARM


def cpu_fields():
    """Of the first core, as /proc/cpuinfo has them."""
    with open("/proc/cpuinfo") as cpus:
        lines = cpus.read().split("\n\n")[0].splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def cpu_model():
    return cpu_fields().get("model name", platform.machine())


def bf16_instructions():
    fields = cpu_fields()
    flags = fields.get("flags", fields.get("Features", "")).split()
    return ", ".join(flag for flag in BF16_FLAGS if flag in flags) or "none"


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
        "bf16 instructions": bf16_instructions(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory_gib():.0f} GiB",
        "kernel": platform.release().split("-")[0],  # without what the distribution adds
        "PyTorch and LibTorch": torch_version(setup),
        "Python": platform.python_version(),
        "fsdp": revision(),
        "backends": ", ".join(setup.backends)
        + "".join(f" (not in this build: {name})" for name in setup.absent_backends),
        "threads a rank": "1",
        "load before": f"{os.getloadavg()[0]:.2f}",
        "date": datetime.date.today().isoformat(),
    }
