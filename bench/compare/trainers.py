"""fsdp-train beside other programs that train a GPT-2: nanoGPT's step, and llm.c and InfiniTrain where they are there.

All train the same model from the same weights, on two cores, with as many sequences in a step. The tokens repeat with
the length of the context, so that every window that begins at a multiple of it is the same, and losses can be compared
whatever the order of the windows. Programs that cannot be told to take turns are started anew in every round.
"""

import array
import contextlib
import json
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import time

from compare.job import ContestantFailed, Job
from compare.markdown import table
from compare.setup import BENCH
from compare.spread import measured, milliseconds, multiple, ratio, with_spread
from compare.steps import SMALL, TINY

NANOGPT = "nanoGPT's step"
OURS = "fsdp-train"
CORES = 2
SEQUENCES = 8  # of a step
WARM_UP_STEPS, STEPS, QUICK_STEPS = 2, 8, 3
ROUNDS, QUICK_ROUNDS = (3, 7), (2, 2)
ENOUGH_SECONDS = 240
LR = 1e-4
TOKENS_MAGIC, TOKENS_VERSION, TOKENS_HEADER = 20240520, 1, 256  # of llm.c's files
WINDOWS = 1000


def add_options(parser):
    parser.add_argument("--llm-c", type=pathlib.Path, metavar="FOLDER", help="a checkout of github.com/karpathy/llm.c")
    parser.add_argument(
        "--infinitrain",
        type=pathlib.Path,
        metavar="PROGRAM",
        help="`gpt2`, built for CPUs from github.com/InfiniTensor/InfiniTrain",
    )


def problems_of(arguments):
    if arguments.llm_c and not (arguments.llm_c / "train_gpt2.c").exists():
        yield f"--llm-c: no train_gpt2.c in {arguments.llm_c}. Give a checkout of github.com/karpathy/llm.c."
    if arguments.infinitrain and not arguments.infinitrain.is_file():
        yield f"--infinitrain: no program {arguments.infinitrain}. Give the `gpt2` that its build makes."


def sources_of(arguments):
    given = {"llm.c": arguments.llm_c, "InfiniTrain": arguments.infinitrain}
    return {name: path.resolve() for name, path in given.items() if path}


class Files:
    """What the trainers read: weights in several forms, tokens with and without llm.c's header."""

    def __init__(self, setup, shape):
        self.shape = shape
        self.folder = setup.scratch / "trainers"
        self.safetensors, self.parameters = setup.weights_of(shape)
        command = setup.module("peer.formats") + shape.arguments()
        subprocess.run(command + ["--weights", str(self.safetensors), "--output", str(self.folder)], check=True)
        period = random.Random(1).choices(range(shape.vocabulary), k=shape.context)
        tokens = array.array("H", period * WINDOWS)
        header = array.array("i", [TOKENS_MAGIC, TOKENS_VERSION, len(tokens)] + [0] * (TOKENS_HEADER - 3))
        self.raw_tokens, self.tokens = self.folder / "raw_tokens.bin", self.folder / "tokens.bin"
        self.raw_tokens.write_bytes(tokens)
        self.tokens.write_bytes(header.tobytes() + tokens.tobytes())


def run_program(name, command, **options):
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise ContestantFailed(f"{name} ended with {done.returncode}:\n{done.stdout[-2000:]}")
    return done.stdout


def counted(number, what):
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def with_threads(threads):
    return ["env", f"OMP_NUM_THREADS={threads}", f"MKL_NUM_THREADS={threads}"]


class FsdpTrain:
    def __init__(self, setup, files, ranks):
        threads = CORES // ranks
        self.name = f"{OURS}, {counted(ranks, 'rank')} of {counted(threads, 'thread')}"
        self.run = setup.scratch / "run"
        self.command = [setup.trainer, "--model", files.folder, "--init-from", files.folder, "--data", files.tokens]
        self.command += ["--run", self.run, "--ranks", ranks, "--threads", threads, "--batch", SEQUENCES // ranks]
        self.command += ["--lr", LR, "--schedule", "constant", "--warmup", 0, "--beta2", 0.95, "--clip", 1]
        self.command += ["--validation-windows", 1, "--sample-length", 0]

    def turn(self, count):
        shutil.rmtree(self.run, ignore_errors=True)
        run_program(self.name, self.command + ["--steps", count])
        lines = (self.run / "metrics.jsonl").read_text().splitlines()
        records = [record for record in map(json.loads, lines) if "loss" in record]
        return [record["step_seconds"] for record in records], [record["loss"] for record in records]


class NanoGpt:
    """One process with all cores, or a process per core under DDP."""

    def __init__(self, setup, stack, files, ranks):
        self.name = f"{NANOGPT}, DDP, {ranks} ranks of 1 thread" if ranks > 1 else f"{NANOGPT}, {CORES} threads"
        command = with_threads(CORES // ranks) + setup.module("peer.nanogpt") + files.shape.arguments()
        command += ["--batch", str(SEQUENCES // ranks), "--weights", str(files.safetensors), "--lr", str(LR)]
        command += ["--tokens", str(files.raw_tokens)]
        self.job = stack.enter_context(Job(self.name.replace("'", ""), command, ranks, setup.scratch))

    def turn(self, count):
        answers = self.job.ask("steps", count=count)
        seconds = [max(of_ranks) for of_ranks in zip(*(answer["seconds"] for answer in answers))]
        return seconds, [statistics.fmean(of_ranks) for of_ranks in zip(*(answer["losses"] for answer in answers))]


class LlmC:
    """train_gpt2.c with OpenMP, built with its Makefile's flags."""

    name = f"llm.c, {CORES} threads"

    def __init__(self, setup, files, checkout):
        program = setup.scratch / "llm_c"
        flags = ["-Ofast", "-march=native", "-fopenmp", "-DOMP", "-Wno-unused-result", "-I", checkout]
        run_program("the compiler of llm.c", ["cc", *flags, BENCH / "others/llm_c.c", "-o", program, "-lm"])
        self.command = with_threads(CORES) + [program, files.folder / "llm_c.bin", files.tokens, SEQUENCES]
        self.command.append(files.shape.context)

    def turn(self, count):
        said = run_program(self.name, self.command + [count, LR])
        steps = [line.split() for line in said.splitlines() if line.startswith("step ")]
        return [float(step[1]) for step in steps], [float(step[2]) for step in steps]


class InfiniTrain:
    name = f"InfiniTrain, {CORES} threads"
    # step    1/10 | train loss 8.412345 | lr 1.00e-04 | (123.45 ms | ...
    STEP = re.compile(r"step +\d+/\d+ \| train loss ([\d.]+) .*?\(([\d.]+) ms")

    def __init__(self, files, program):
        self.command = with_threads(CORES) + [program, "-device", "cpu", "-input_bin", files.tokens]
        self.command += ["-llmc_filepath", files.folder / "llm_c.bin", "-batch_size", SEQUENCES]
        self.command += ["-sequence_length", files.shape.context, "-total_batch_size", SEQUENCES * files.shape.context]
        self.command += ["-learning_rate", LR]

    def turn(self, count):
        steps = self.STEP.findall(run_program(self.name, self.command + ["-num_iteration", count]))
        return [float(ms) / 1e3 for _, ms in steps], [float(loss) for loss, _ in steps]


def contestants(setup, stack, files):
    for ranks in (CORES, 1):
        yield FsdpTrain(setup, files, ranks)
    for ranks in (CORES, 1):
        yield NanoGpt(setup, stack, files, ranks)
    if "llm.c" in setup.sources:
        yield LlmC(setup, files, setup.sources["llm.c"])
    if "InfiniTrain" in setup.sources:
        yield InfiniTrain(files, setup.sources["InfiniTrain"])


def take_turn(setup, number, trainer, found):
    setup.say(f"    round {number}: {trainer.name}")
    count = WARM_UP_STEPS + (QUICK_STEPS if setup.quick else STEPS)
    seconds, losses = trainer.turn(count)
    if len(seconds) != count:
        raise ContestantFailed(f"{trainer.name} told of {len(seconds)} steps, expected {count}")
    of_trainer = found.setdefault(trainer.name, {"seconds": [], "losses": losses})
    of_trainer["seconds"].append(statistics.median(seconds[WARM_UP_STEPS:]))


def run(setup):
    files = Files(setup, TINY if setup.quick else SMALL)
    least, most = QUICK_ROUNDS if setup.quick else ROUNDS
    found = {}
    with contextlib.ExitStack() as stack:
        trainers = list(contestants(setup, stack, files))
        end = time.monotonic() + ENOUGH_SECONDS
        for number in range(1, most + 1):
            if number > least and time.monotonic() > end:
                break
            for trainer in trainers if number % 2 else reversed(trainers):
                take_turn(setup, number, trainer, found)
    ordered = {trainer.name: found[trainer.name] for trainer in trainers}
    return {
        "shape": str(files.shape),
        "parameters": files.parameters,
        "tokens": SEQUENCES * files.shape.context,
        "contestants": ordered,
        "absent": [name for name in ("llm.c", "InfiniTrain") if name not in setup.sources],
    }


def row(contestants, name, tokens):
    found = contestants[name]
    reference = next(other for other in contestants if other.startswith(NANOGPT))
    rate = measured(tokens / seconds for seconds in found["seconds"])
    return [
        name,
        milliseconds(found["seconds"]),
        with_spread(f"{rate.median:.0f}", rate),
        multiple(found["seconds"], contestants[reference]["seconds"]),
        f"{found['losses'][0]:.4f}",
        f"{found['losses'][-1]:.4f}",
    ]


def render(result):
    contestants = result["contestants"]
    reference = next(name for name in contestants if name.startswith(NANOGPT))
    head = ["trainer", "step, ms", "tokens per second", f"of {reference}", "first loss", "last loss"]
    rows = [row(contestants, name, result["tokens"]) for name in contestants]
    title = f"{result['shape']}, {result['parameters'] / 1e6:.3g} M parameters, fp32"
    work = f"{title}, {result['tokens']} tokens in a step, {CORES} cores"
    lines = [f"{work}; whole steps, with reading data, clipping and records:", "", *table(head, rows)]
    if result["absent"]:
        lines += ["", f"Not measured, for want of their sources: {', '.join(result['absent'])} (bench/README.md)."]
    return lines


def summary(result):
    contestants = result["contestants"]
    name = next(iter(contestants))
    multiples = {
        other: ratio(contestants[name]["seconds"], found["seconds"])
        for other, found in contestants.items()
        if not other.startswith(OURS)
    }
    yield f"A step of a trainer, {result['parameters'] / 1e6:.3g} M parameters, fp32", name, multiples
