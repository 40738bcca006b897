"""Pages of which tools/write_*.py writes a part have the part that it writes now."""

import subprocess
import sys

from documents import pages


class Written:
    """A check: the tool writes nothing else."""

    def __init__(self, tool):
        self.tool = pages.ROOT / "tools" / tool

    def problems(self, build):
        command = [sys.executable, self.tool, build, "--check"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            yield done.stdout.strip()
