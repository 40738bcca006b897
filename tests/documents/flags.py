"""Every flag of fsdp-train that a page names is one that its help knows."""

import re
import subprocess

from documents import commands, pages

DOCS = ["cluster", "faq", "metrics", "strategies", "tips", "trainer", "trainer_data", "trainer_going_on", "trainer_options"]
PAGES = ["README.md", *(f"docs/{name}.md" for name in DOCS)]
COMMANDS = ["", "prepare", "sample", "report"]
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
# Of torchrun, SLURM and other programs.
OTHERS = {"--requeue", "--signal", "--max-restarts", "--no-python", "--logdir", "--preset", "--warmpu"}
OTHERS |= {"--nnodes", "--nproc-per-node", "--shutdown-timeout", "--install"}
# Of other trainers, for which ours are suggested.
OTHERS |= {"--learning", "--max", "--bf16"}


def known(build):
    help_texts = (
        subprocess.run(
            [build / "apps/fsdp-train", *command.split(), "--help"],
            env=commands.environment(build, build),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        for command in COMMANDS
    )
    return set(FLAG.findall("\n".join(help_texts)))


def problems(build):
    flags = known(build)
    for page in PAGES:
        for number, line in pages.prose(page):
            for quoted in re.findall(r"`([^`]*)`", line):
                for flag in FLAG.findall(quoted):
                    if flag not in flags | OTHERS:
                        yield f"{page}:{number}: fsdp-train has no {flag}"
