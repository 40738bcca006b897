"""What processes of others hold, in bytes, as /proc tells it."""

KIB = 1024


def field(path, name):
    """A value that the file has in kB."""
    with open(path) as lines:
        found = next(line for line in lines if line.startswith(name + ":"))
    return int(found.split()[1]) * KIB


def resident(process):
    return field(f"/proc/{process}/status", "VmRSS")


def peak_resident(process):
    return field(f"/proc/{process}/status", "VmHWM")


def proportional(process):
    """Shared pages are divided among those that share them."""
    return field(f"/proc/{process}/smaps_rollup", "Pss")


def forget_peak(process):
    """VmHWM starts again from what is resident now (proc(5), clear_refs)."""
    with open(f"/proc/{process}/clear_refs", "w") as peak:
        peak.write("5")


def available():
    """On the machine."""
    return field("/proc/meminfo", "MemAvailable")


def disk_traffic(process):
    """Bytes that it has read from disks, and written to them; a page counts as written when it is changed."""
    with open(f"/proc/{process}/io") as lines:
        counts = dict(line.split(": ") for line in lines)
    return int(counts["read_bytes"]), int(counts["write_bytes"])
