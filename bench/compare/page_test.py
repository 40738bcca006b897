"""What becomes of figures: their spread, what belongs on one page, and the page itself.

PYTHONPATH=bench python3 -m unittest compare.page_test
"""

import pathlib
import tempfile
import unittest
from unittest import mock

from compare import calls, machine, offload, page, page_cache, programs, report, spread, steps as training_steps
from compare.checkpoint_turns import PEER as DCP, PLAIN_FILES, RANKS
from compare.collectives import COPY, PEER, QUESTIONS, check_sums
from compare.contestants import PEERS, PLAIN, RECOMPUTATIONS, Contestant
from compare.failures_test import killed
from compare.parallelism_test import between_hosts, divided, pipelined
from compare.recomputation import HALF
from compare.job import ContestantFailed
from compare.plain_files import Files
from compare.settings_test import in_other_settings

IDENTITY = {"CPU": "one", "cores": "2"}
COMMIT = "0123456789ab"
ROUNDS = [1.0, 2.0, 3.0, 4.0, 5.0]


def found(seconds=ROUNDS):
    return {"seconds": seconds, "waited": seconds, "received": [1e6] * len(seconds), "losses": [8.0, 7.0]}


def steps():
    names = (PLAIN, "fsdp shm", *PEERS.values())
    settings = {"batch": 4, "dtype": "fp32", "ranks": 2, "shape": {"context": 128}}
    work = {"shape": "a shape", "parameters": 2e6, "work": settings, "left_out": ["one"]}
    return {"works": [work | {"contestants": {name: found() for name in names}}], "not_installed": ["another"]}


def held():
    return {
        "before": {"resident": [100, 100], "proportional": [50, 50]},
        "building": [200, 200],
        "peak_resident": [[300, 300], [500, 500]],
        "peak_proportional": [150, 250],
        "parts": {"parameters": 100, "gradients": 100, "optimizer": 200},
        "activations": [100, 100],
    }


def memory():
    parts = held()["parts"]
    work = {"title": "a shape, 2 M parameters, fp32, 2 ranks", "dtype": "fp32", "formula": {"fsdp shm": parts}}
    return {"works": [work | {"contestants": {"fsdp shm": held(), PEERS["ddp"]: held() | {"parts": {}}}}]}


def recomputation():
    ours = {f"fsdp shm, {words}": held() for words in (*RECOMPUTATIONS.values(), HALF)}
    peers = [name for name in PEERS.values() if name.startswith(PEERS["fsdp2"])]
    others = {name: held() | {"activations": [None, None]} for name in peers}
    held_by = {"fsdp shm": held()} | ours | others
    contestants = {name: found() | {"memory": memory} for name, memory in held_by.items()}
    work = {"batch": 2, "dtype": "fp32", "ranks": 2, "shape": {"context": 128}}
    result = {"shape": "a shape", "parameters": 2e6, "work": work, "left_out": []}
    return result | {"contestants": contestants}


def from_files():
    """The disk is slower in the first rounds, the computation in the others."""
    disk = ROUNDS[::-1]
    traffic = {"read": [1 << 20] * len(ROUNDS), "written": [2 << 20] * len(ROUNDS), "disk": disk}
    rounds = {
        offload.IN_MEMORY: {"seconds": [2.0] * len(ROUNDS)},
        offload.FROM_FILES: {"seconds": [2 * max(2.0, seconds) for seconds in disk]} | traffic,
        offload.IN_BACKWARD: {"seconds": [max(2.0, seconds) for seconds in disk]} | traffic,
    }
    result = {"shape": "a shape", "parameters": 2e6, "work": {"ranks": 2, "batch": 4}}
    result["names"] = ["fsdp shm", "fsdp shm, from files", "fsdp shm, from files, step in backward"]
    memory = {kind: held() for kind in rounds}
    return result | {"state": 3 << 20, "limit": 5 << 20, "memory": memory, "rounds": rounds}


# As Google Benchmark writes it.
MOMENTS = """{"benchmarks": [{"name": "step/threads:2/iterations:15/manual_time",
"run_name": "step/threads:2/iterations:15/manual_time", "iterations": 15, "real_time": 6.0e+01,
"fp32_ns": 2.0e+00, "fp32_ns_spread": 1.0e-02, "bf16_ns": 1.5e+00, "bf16_ns_spread": 2.0e-02,
"8bit_ns": 2.2e+00, "8bit_ns_spread": 3.0e-02, "bf16_ratio": 7.5e-01, "bf16_ratio_spread": 1.0e-02,
"8bit_ratio": 1.1e+00, "8bit_ratio_spread": 2.0e-02,
"fp32_bytes": 8.0e+00, "bf16_bytes": 4.0e+00, "8bit_bytes": 2.125e+00}]}"""
LOSS = """{"benchmarks": [{"run_name": "fp32/threads:1/vocabulary:50257/iterations:7/manual_time",
"whole_ms": 4.0e+03, "whole_ms_spread": 1.0e-02, "chunks_ms": 3.0e+03, "chunks_ms_spread": 1.0e-02,
"ratio": 7.5e-01, "ratio_spread": 1.0e-02, "whole_mb": 8.0e+02, "chunks_mb": 8.0e+01}]}"""


def moments():
    return {"benchmarks": programs.benchmarks_in(MOMENTS)}


def loss():
    return {"benchmarks": programs.benchmarks_in(LOSS)}


def trainers():
    names = ("fsdp-train, 2 ranks of 1 thread", "nanoGPT's step, DDP, 2 ranks of 1 thread")
    result = {"shape": "a shape", "parameters": 2e6, "tokens": 1024, "absent": ["llm.c"]}
    return result | {"contestants": {name: found() for name in names}}


def collectives():
    seconds = {"fsdp shm": ROUNDS, PEER: [2 * value for value in ROUNDS], COPY: ROUNDS}
    return {"rows": [{"ranks": 2, "do": do, "bytes": 1 << 24, "seconds": seconds} for do in QUESTIONS]}


def world_calls():
    seconds = {"fsdp shm": ROUNDS, PEER: [2 * value for value in ROUNDS]}
    return {"rows": [{"ranks": 2, "call": call, "bytes": 1 << 22, "seconds": seconds} for call in calls.CALLS]}


def slow_cables():
    row = {"seconds": ROUNDS, "root": [15e6] * 5, "others": [10e6] * 5}
    return {"bytes": 5_000_000, "megabits": 80, "hosts": 8, "rows": {"fsdp gloo: broadcast": row}}


def growth():
    row = {"work": {"ranks": 2, "shape": {"layers": 6}}, "seconds": {PLAIN: ROUNDS, "fsdp shm": ROUNDS}}
    return {"ranks": [row], "layers": [row]}


def wires():
    row = {"gigabits": 1, "dtype": "fp32", "shape": "a shape"}
    peer = found() | {"waited": [None] * len(ROUNDS)}
    return {"rows": [row | {"contestants": {PLAIN: found(), "fsdp gloo": found(), PEERS["fsdp2"]: peer}}]}


def checkpoints():
    """Plain files take half of our time, PyTorch's twice as long; more ranks take longer."""
    names = {"fsdp shm": 2, PLAIN_FILES: 1, DCP: 4}
    seconds = {name: [factor * value for value in ROUNDS] for name, factor in names.items()}
    saves = {
        name: {"bytes": 3 << 20, "save": each, "load": each, "from disk": [1.0] * len(ROUNDS)}
        for name, each in seconds.items()
    }
    for name in ("fsdp shm", PLAIN_FILES):
        saves[name]["resume"] = seconds[name]
    loads = [{"ranks": ranks, "seconds": [ranks * value for value in ROUNDS]} for ranks in RANKS]
    beside = {"every": 10, "without": [10.0] * 5, "beside": [11.0] * 5, "paused": [0.02] * 5, "until commit": ROUNDS}
    result = {"shape": "a shape", "parameters": 2e6, "work": {"ranks": 2}}
    return result | {"saves": saves, "loads": loads, "beside": beside}


RESULTS = {
    "checkpoints": checkpoints,
    "failures": killed,
    "steps": steps,
    "settings": in_other_settings,
    "memory": memory,
    "recomputation": recomputation,
    "offload": from_files,
    "moments": moments,
    "loss": loss,
    "trainers": trainers,
    "collectives": collectives,
    "calls": world_calls,
    "cables": slow_cables,
    "pipelines": pipelined,
    "tensor_parallel": divided,
    "mixed": between_hosts,
    "growth": growth,
    "wires": wires,
}



class GroupsTest(unittest.TestCase):
    """Contestants that the memory does not hold all at once."""

    NAMES = (PLAIN, "fsdp shm", PEERS["fsdp2"], PEERS["ddp"], PEERS["deepspeed"])

    def compare(self, room):
        """With room for so many at a time, of which each group is slower than the one before."""
        groups = []

        def take_turns(_, contestants, ranks):
            self.assertEqual(ranks, 2)
            groups.append([contestant.name for contestant in contestants[:room]])
            return {name: found([float(len(groups))] * 5) for name in groups[-1]}

        with mock.patch.object(training_steps, "compare_steps", take_turns):
            invited = [Contestant(name, []) for name in self.NAMES]
            return training_steps.compare_in_groups(None, invited, 2), groups

    def test_all_that_have_room_are_one_group(self):
        result, groups = self.compare(room=5)
        self.assertEqual(groups, [list(self.NAMES)])
        self.assertNotIn("beside", result[PEERS["deepspeed"]])

    def test_others_take_turns_with_the_references_again(self):
        result, groups = self.compare(room=4)
        self.assertEqual(groups, [list(self.NAMES[:4]), [PLAIN, "fsdp shm", PEERS["fsdp2"], PEERS["deepspeed"]]])
        self.assertEqual(result[PLAIN]["seconds"], [1.0] * 5)
        self.assertEqual(training_steps.seconds_beside(result, PEERS["deepspeed"], PLAIN), [2.0] * 5)
        self.assertEqual(training_steps.seconds_beside(result, PEERS["ddp"], PLAIN), [1.0] * 5)

    def test_who_never_has_room_is_left_out(self):
        result, groups = self.compare(room=3)
        self.assertEqual(list(result), list(self.NAMES[:3]))
        self.assertEqual(len(groups), 2)


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

    def write(self, identity, parts, quick=False, commit=COMMIT):
        opened, reasons = page.open_page(self.folder, identity, quick)
        for name in parts:
            page.add_part(opened, name, RESULTS[name](), commit, 0.25)
        report.write(self.folder, opened)
        return set(opened["parts"]), reasons

    def test_takes_parts_of_one_machine_each_of_its_own_commit(self):
        self.write(IDENTITY, ["steps", "memory"])
        later = "ba9876543210" + machine.CHANGED
        self.assertEqual(self.write(IDENTITY, ["memory"], commit=later), ({"steps", "memory"}, []))
        lines = (self.folder / "performance.md").read_text().splitlines()
        told = {lines[at - 2]: lines[at] for at, line in enumerate(lines) if line.startswith("Commit ")}
        self.assertEqual(list(told), ["## A training step", "## Peak memory"])
        self.assertTrue(told["## A training step"].startswith(f"Commit `{COMMIT}`, "))
        self.assertTrue(told["## Peak memory"].startswith(f"Commit `{later}`, "))

    def test_is_begun_anew_on_another_machine(self):
        for other in ({"CPU": "another"}, {"cores": "4"}):
            self.write(IDENTITY, ["steps"])
            parts, reasons = self.write(IDENTITY | other, ["memory"])
            self.assertEqual((parts, len(reasons)), ({"memory"}, 1))

    def test_mixes_no_quick_parts_and_none_of_an_older_form(self):
        self.write(IDENTITY, ["steps"])
        self.assertEqual(self.write(IDENTITY, ["memory"], quick=True)[0], {"memory"})
        (self.folder / page.FILE).write_text('{"steps": {}}')
        self.assertEqual(self.write(IDENTITY, ["memory"])[0], {"memory"})

    def test_says_once_what_was_measured_and_begins_with_a_summary(self):
        self.write(IDENTITY, report.PARTS)
        text = (self.folder / "performance.md").read_text()
        self.assertEqual(text.count("CPU: one; cores: 2"), 1)
        short = text[text.index("## In short") : text.index("## A training step")]
        self.assertIn("2 M parameters, fp32, batch 4**: fsdp shm takes 1.00 ±0.0 % of PyTorch FSDP2", short)
        self.assertIn("a unit of 16 MiB, 2 ranks**: fsdp shm takes 0.50 ±0.0 % of PyTorch Gloo", short)
        self.assertEqual(len(report.PARTS), text.count("\n## ") - 1)


class MemoryTest(unittest.TestCase):
    def summaries(self, part):
        """By what is compared."""
        module, _ = report.PARTS[part]
        return {what: multiples for what, _, multiples in module.summary(RESULTS[part]())}

    def test_a_step_from_files_is_compared_with_what_takes_longer_in_the_same_round(self):
        module, _ = report.PARTS["offload"]
        found = {name: multiples[offload.LARGER] for _, name, multiples in module.summary(RESULTS["offload"]())}
        self.assertEqual(
            found,
            {
                "fsdp shm, from files": spread.Measured(2.0, 0.0),
                "fsdp shm, from files, step in backward": spread.Measured(1.0, 0.0),
            },
        )

    def test_what_cannot_be_measured_is_said_and_has_no_summary(self):
        module, _ = report.PARTS["offload"]
        problem = {"problem": "a folder has no direct I/O"}
        self.assertEqual(module.render(problem), ["Not measured: a folder has no direct I/O."])
        self.assertEqual(list(module.summary(problem)), [])

    def test_a_program_tells_medians_with_their_spread(self):
        (benchmark,) = programs.benchmarks_in(MOMENTS)
        self.assertEqual(benchmark["name"], "step")
        self.assertEqual(benchmark["arguments"], {"threads": 2, "iterations": 15})
        self.assertEqual(programs.counter(benchmark, "8bit_ratio"), spread.Measured(1.1, 0.02))
        self.assertEqual(programs.counter(benchmark, "8bit_bytes"), spread.Measured(2.125, 0.0))

    def test_memory_saved_is_told_beside_its_price(self):
        self.assertEqual(
            self.summaries("loss"),
            {
                "Cross entropy of a vocabulary of 50,257, fp32, 1 thread, time": {
                    "whole logits": spread.Measured(0.75, 0.01)
                },
                "Cross entropy of a vocabulary of 50,257, fp32, 1 thread, peak": {
                    "whole logits": spread.Measured(0.1, 0.0)
                },
            },
        )
        module, _ = report.PARTS["moments"]
        self.assertIn("| 8bit | 2.125 | 0.27 | 2.200 ±3 % | 1.10 ±2 % |", module.render(RESULTS["moments"]()))


class CheckpointsTest(unittest.TestCase):
    def test_are_compared_with_plain_files_and_the_peer_and_on_other_ranks(self):
        module, _ = report.PARTS["checkpoints"]
        saved, loaded, resumed, on_others = module.summary(RESULTS["checkpoints"]())
        for _, name, multiples in (saved, loaded):
            self.assertEqual(name, "fsdp shm")
            self.assertEqual(multiples, {PLAIN_FILES: spread.Measured(2.0, 0.0), DCP: spread.Measured(0.5, 0.0)})
        self.assertEqual(resumed[1:], ("fsdp shm", {PLAIN_FILES: spread.Measured(2.0, 0.0)}))
        self.assertEqual(on_others[1:], ("the slowest of the others, 4 ranks,", {"2 ranks": spread.Measured(2.0, 0.0)}))

    def test_a_pause_is_a_share_of_the_time_of_steps_without(self):
        module, _ = report.PARTS["checkpoints"]
        ((_, text),) = module.remarks(RESULTS["checkpoints"]())
        self.assertEqual(text, "training stands still for 0.200 ±0.000 % of its time (goal: at most 0.5 %)")

    def test_plain_files_are_read_as_they_were_written(self):
        with tempfile.TemporaryDirectory() as name, mock.patch.dict("os.environ", RANK="1", WORLD_SIZE="2"):
            folder = pathlib.Path(name) / "one"
            files = Files()
            files.save({"folder": str(folder), "bytes": 2 * 1_500_000})
            written = bytes(files.bytes.view)
            self.assertEqual(page_cache.bytes_in(folder), 1_500_000)
            page_cache.give_up(folder)
            files.bytes.view[:] = bytes(1_500_000)
            files.load({"folder": str(folder)})
            self.assertEqual(bytes(files.bytes.view), written)


class SumTest(unittest.TestCase):
    class Job:
        name = "one"

    def test_of_what_was_written_before_is_an_error(self):
        size, repetitions = 4096, 9
        check_sums(self.Job, [{"sum": 1024 * 2}], size, repetitions)
        with self.assertRaises(ContestantFailed):
            check_sums(self.Job, [{"sum": 1024 * 1}], size, repetitions)


class CallsTest(unittest.TestCase):
    def test_a_call_takes_from_the_last_begin_to_the_last_end(self):
        ranks = [{"begins": [1.0, 5.0], "ends": [2.0, 7.0]}, {"begins": [1.5, 4.0], "ends": [1.75, 6.0]}]
        self.assertEqual(calls.durations(ranks), [0.5, 2.0])

    def test_another_result_is_an_error(self):
        job = mock.Mock(ranks=[0, 1, 2, 3])
        calls.check_result(job, "all_reduce", 4096, {"sum": 1024 * (1 + 2 + 3 + 4)})
        with self.assertRaises(ContestantFailed):
            calls.check_result(job, "all_reduce", 4096, {"sum": 1024 * 4})


if __name__ == "__main__":
    unittest.main()
