"""What was measured on, and with what."""

import datetime
import hashlib
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


def bf16_flags():
    fields = cpu_fields()
    flags = fields.get("flags", fields.get("Features", "")).split()
    return [flag for flag in BF16_FLAGS if flag in flags]


def has_bf16():
    """Without instructions a step in it takes many times as long as in fp32."""
    return bool(bf16_flags())


def bf16_instructions():
    return ", ".join(bf16_flags()) or "none"


def memory_gib():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def torch_version(setup):
    return subprocess.check_output(setup.module("peer.version"), text=True).strip()


# What bench/run itself writes is no change of what it measures.
WRITTEN = (":(top,exclude)docs/performance*", ":(top,exclude)docs/pictures/performance_*")
CHANGED = ", with changes"
UNKNOWN = "unknown"


def git(*words):
    ended = subprocess.run(["git", "-C", str(BENCH), *words], capture_output=True, text=True)
    return ended.stdout.strip() if ended.returncode == 0 else None


def commit():
    """That all is as in it; or with a remark, and a number for the changes, where files were changed."""
    name = git("rev-parse", "--short=12", "HEAD")
    if name is None:
        return UNKNOWN
    if not git("status", "--porcelain", "--", ":/", *WRITTEN):
        return name
    changes = git("diff", "HEAD", "--", ":/", *WRITTEN) or ""
    return f"{name}{CHANGED} {hashlib.sha1(changes.encode()).hexdigest()[:6]}"


def identity(setup):
    """Parts of one page have the same."""
    absent = "".join(f" (not in this build: {name})" for name in setup.absent_backends)
    return {
        "CPU": cpu_model(),
        "bf16 instructions": bf16_instructions(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory_gib():.0f} GiB",
        "kernel": platform.release().split("-")[0],  # without what the distribution adds
        "PyTorch and LibTorch": torch_version(setup),
        "Python": platform.python_version(),
        "backends": ", ".join(setup.backends) + absent,
        "threads per rank": "1",
    }


def load():
    """Of the last minute, in processes."""
    return os.getloadavg()[0]


def today():
    return datetime.date.today().isoformat()
