"""What becomes of figures: their spread, what belongs on one page, and the page itself.

PYTHONPATH=bench python3 -m unittest compare.page_test
"""

import pathlib
import tempfile
import unittest

from compare import machine, page, report, spread
from compare.collectives import COPY, PEER, QUESTIONS, check_sums
from compare.contestants import PEERS, PLAIN
from compare.job import ContestantFailed

IDENTITY = {"commit": "0123456789ab", "CPU": "one", "cores": "2"}
ROUNDS = [1.0, 2.0, 3.0, 4.0, 5.0]


def found(seconds=ROUNDS):
    return {"seconds": seconds, "waited": seconds, "received": [1e6] * len(seconds), "losses": [8.0, 7.0]}


def steps():
    names = (PLAIN, "fsdp shm", *PEERS.values())
    settings = {"batch": 4, "dtype": "fp32", "ranks": 2, "shape": {"context": 128}}
    work = {"shape": "a shape", "parameters": 2e6, "work": settings, "left_out": ["one"]}
    return {"works": [work | {"contestants": {name: found() for name in names}}], "not_installed": ["another"]}


def memory():
    parts = {"parameters": 100, "gradients": 100}
    held = {
        "before": {"resident": [100, 100], "proportional": [50, 50]},
        "building": [200, 200],
        "peak_resident": [[300, 300], [500, 500]],
        "peak_proportional": [150, 250],
        "parts": parts,
    }
    work = {"title": "a shape, 2 M parameters, fp32, 2 ranks", "dtype": "fp32", "formula": {"fsdp shm": parts}}
    return {"works": [work | {"contestants": {"fsdp shm": held, PEERS["ddp"]: held | {"parts": {}}}}]}


def trainers():
    names = ("fsdp-train, 2 ranks of 1 thread", "nanoGPT's step, DDP, 2 ranks of 1 thread")
    result = {"shape": "a shape", "parameters": 2e6, "tokens": 1024, "absent": ["llm.c"]}
    return result | {"contestants": {name: found() for name in names}}


def collectives():
    seconds = {"fsdp shm": ROUNDS, PEER: [2 * value for value in ROUNDS], COPY: ROUNDS}
    return {"rows": [{"ranks": 2, "do": do, "bytes": 1 << 24, "seconds": seconds} for do in QUESTIONS]}


def growth():
    row = {"work": {"ranks": 2, "shape": {"layers": 6}}, "seconds": {PLAIN: ROUNDS, "fsdp shm": ROUNDS}}
    return {"ranks": [row], "layers": [row]}


def wires():
    row = {"gigabits": 1, "dtype": "fp32", "shape": "a shape"}
    peer = found() | {"waited": [None] * len(ROUNDS)}
    return {"rows": [row | {"contestants": {PLAIN: found(), "fsdp gloo": found(), PEERS["fsdp2"]: peer}}]}


RESULTS = {
    "steps": steps,
    "memory": memory,
    "trainers": trainers,
    "collectives": collectives,
    "growth": growth,
    "wires": wires,
}


class SpreadTest(unittest.TestCase):
    def test_is_half_the_distance_between_the_quartiles_as_a_share_of_the_median(self):
        self.assertEqual(spread.measured(ROUNDS), spread.Measured(3.0, 1 / 3))
        self.assertEqual(spread.measured([7.0]), spread.Measured(7.0, 0.0))

    def test_of_a_ratio_is_that_of_the_rounds_ratios(self):
        """What disturbs a round disturbs both."""
        twice = [2 * value for value in ROUNDS]
        self.assertEqual(spread.ratio(twice, ROUNDS), spread.Measured(2.0, 0.0))

    def test_is_written_in_percent(self):
        self.assertEqual(spread.milliseconds(ROUNDS), "3000.0 ±33 %")
        self.assertEqual(spread.with_spread("1", spread.Measured(1.0, 0.004)), "1 ±0.4 %")
        self.assertEqual(spread.multiple(ROUNDS, None), "–")
        self.assertEqual(spread.multiple(ROUNDS, ROUNDS), "1")


class PageTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def write(self, identity, parts, quick=False):
        opened, reasons = page.open_page(self.folder, identity, quick)
        page.begin_run(opened)
        opened["parts"] |= {name: RESULTS[name]() for name in parts}
        report.write(self.folder, opened)
        return set(opened["parts"]), reasons

    def test_takes_parts_of_one_commit_and_machine(self):
        self.write(IDENTITY, ["steps"])
        self.assertEqual(self.write(IDENTITY, ["memory"]), ({"steps", "memory"}, []))

    def test_is_begun_anew_for_another_commit_or_machine(self):
        for other in ({"commit": "ba9876543210"}, {"CPU": "another"}, {"cores": "4"}):
            self.write(IDENTITY, ["steps"])
            parts, reasons = self.write(IDENTITY | other, ["memory"])
            self.assertEqual((parts, len(reasons)), ({"memory"}, 1))

    def test_of_a_changed_tree_is_always_begun_anew(self):
        for commit in (IDENTITY["commit"] + machine.CHANGED, machine.UNKNOWN):
            self.write(IDENTITY | {"commit": commit}, ["steps"])
            parts, reasons = self.write(IDENTITY | {"commit": commit}, ["memory"])
            self.assertEqual((parts, len(reasons)), ({"memory"}, 1))

    def test_mixes_no_quick_parts_and_none_of_an_older_form(self):
        self.write(IDENTITY, ["steps"])
        self.assertEqual(self.write(IDENTITY, ["memory"], quick=True)[0], {"memory"})
        (self.folder / page.FILE).write_text('{"steps": {}}')
        self.assertEqual(self.write(IDENTITY, ["memory"])[0], {"memory"})

    def test_says_once_what_was_measured_and_begins_with_a_summary(self):
        self.write(IDENTITY, report.PARTS)
        text = (self.folder / "performance.md").read_text()
        self.assertEqual(text.count(IDENTITY["commit"]), 1)
        short = text[text.index("## In short") : text.index("## A training step")]
        self.assertIn("2 M parameters, fp32, batch 4**: fsdp shm takes 1.00 ±0.0 % of PyTorch FSDP2", short)
        self.assertIn("a unit of 16 MiB, 2 ranks**: fsdp shm takes 0.50 ±0.0 % of PyTorch Gloo", short)
        self.assertEqual(len(report.PARTS), text.count("\n## ") - 1)


class SumTest(unittest.TestCase):
    class Job:
        name = "one"

    def test_of_what_was_written_before_is_an_error(self):
        size, repetitions = 4096, 9
        check_sums(self.Job, [{"sum": 1024 * 2}], size, repetitions)
        with self.assertRaises(ContestantFailed):
            check_sums(self.Job, [{"sum": 1024 * 1}], size, repetitions)


if __name__ == "__main__":
    unittest.main()
