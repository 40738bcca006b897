"""Kills of fsdp-train: its record is read while it is written, and what becomes of the figures.

PYTHONPATH=bench python3 -m unittest compare.failures_test
"""

import pathlib
import random
import sys
import tempfile
import unittest

from compare import failures, kill_turns, killed_trainer
from compare.job import ContestantFailed

ROUNDS = [1.0, 2.0, 3.0, 4.0, 5.0]


def killed():
    """One kill in the midst of an update, the others not; and minutes of which one had a step that was repeated."""
    hot, cold = kill_turns.KINDS
    kills = [{"kind": hot, "source": killed_trainer.MEMORY, "seconds": seconds} for seconds in ROUNDS]
    kills.append({"kind": hot, "source": killed_trainer.CHECKPOINT, "seconds": 6.0})
    kills += [{"kind": cold, "source": killed_trainer.CHECKPOINT, "seconds": 2 * seconds} for seconds in ROUNDS]
    minutes = [{"seconds": 60.0, "counting": 57.0}, {"seconds": 60.0, "counting": 51.0}]
    sources = [killed_trainer.MEMORY, killed_trainer.CHECKPOINT]
    return {
        "shape": "a shape",
        "parameters": 2e6,
        "kills": {"kills": kills, "steps": [2.0, 2.0], "save_every": 5},
        "minutes": {"minutes": minutes, "sources": sources, "save_every": 10},
    }


class FailuresTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.record = pathlib.Path(scratch.name) / "metrics.jsonl"

    def test_of_each_kind_have_a_row(self):
        lines = failures.render(killed())
        self.assertIn("| memory | `--hot-restart` | 5 | 3.00 ±33 % | 1.00 | 5.00 | 2 |", lines)
        self.assertIn("| a checkpoint | `--hot-restart` | 1 | 6.00 ±0.0 % | 6.00 | 6.00 | 10 |", lines)
        self.assertIn("| 120 | 2 | 1 | 90.0 % | 90.0 ±2.5 % | 85.0 % |", lines)
        self.assertEqual(
            [text for _, text in failures.remarks(killed())][:2],
            [
                "fsdp-train with 2 M parameters takes 3.00 s ±33 % (goal: 2 s)",
                "fsdp-train with 2 M parameters takes 6.00 s ±33 % (goal: 10 s)",
            ],
        )

    def test_a_record_says_which_start_is_the_newest_and_its_last_step(self):
        self.assertEqual(killed_trainer.seen_in(self.record), killed_trainer.Seen())
        lines = ['{"step":0,"event":"run_start","process":7}', '{"step":1,"loss":1}']
        lines += ['{"step":1,"event":"run_start","process":8}']
        self.record.write_text("\n".join(lines) + '\n{"step":2,"lo')
        self.assertEqual(killed_trainer.seen_in(self.record), killed_trainer.Seen(8, 0))
        self.record.write_text("\n".join(lines) + '\n{"step":2,"loss":1}\n{"step":2,"event":"checkpoint"}\n')
        self.assertEqual(killed_trainer.seen_in(self.record), killed_trainer.Seen(8, 2))

    def test_a_record_that_is_longer_than_is_read_has_its_last_step(self):
        self.record.write_text('{"step":1,"event":"run_start","process":7}\n' + 40_000 * '{"step":2,"loss":1}\n')
        self.assertGreater(self.record.stat().st_size, killed_trainer.TAIL)
        self.assertEqual(killed_trainer.seen_in(self.record), killed_trainer.Seen(0, 2))

    def test_ranks_say_where_they_go_on_from(self):
        restarted = "rank 1 was killed\n"
        self.assertEqual(killed_trainer.source_in(restarted), killed_trainer.BEGINNING)
        from_memory = restarted + "goes on from memory, after 7 steps\n"
        self.assertEqual(killed_trainer.source_in(from_memory), killed_trainer.MEMORY)
        from_checkpoint = restarted + "goes on from a/run/step-10\n"
        self.assertEqual(killed_trainer.source_in(from_checkpoint), killed_trainer.CHECKPOINT)

    def test_only_steps_of_a_minute_count_in_it(self):
        steps = {number: 2.0 for number in range(1, 11)}
        minute = kill_turns.minute_between((100.0, 3), (110.0, 7), steps)
        self.assertEqual(minute, {"seconds": 10.0, "counting": 8.0})


# As fsdp-train behaves: two ranks, of which the first writes the record; they are started again from memory, and the
# second time from the checkpoint of step 5.
STAND_IN = """
import json, os, pathlib, signal, sys, time
run = pathlib.Path(sys.argv[sys.argv.index("--run") + 1])
run.mkdir()
record = run / "metrics.jsonl"
(run / "step-5.partial-AbCdEf").mkdir()
(run / "step-5.partial-AbCdEf/manifest.json").touch()

def write(**fields):
    with record.open("a") as file:
        file.write(json.dumps(fields, separators=(",", ":")) + "\\n")

def train(step):
    write(step=step, event="run_start", process=os.getpid())
    while True:
        time.sleep(0.02)
        step += 1
        write(step=step, loss=1.0, step_seconds=0.02)
        if step == 5:
            (run / "step-5.partial-AbCdEf").rename(run / "step-5")

def start(step):
    ranks = []
    for rank in range(2):
        ranks.append(os.fork())
        if ranks[-1] == 0:
            train(step) if rank == 0 else time.sleep(1000)
    return ranks

step, sources = 0, [f"{run}/step-5", "memory, after some steps"]
while True:
    ranks = start(step)
    ended, _ = os.wait()
    left = next(rank for rank in ranks if rank != ended)
    os.kill(left, signal.SIGKILL)
    os.waitpid(left, 0)
    source = sources.pop()
    print("goes on from " + source, flush=True)
    lines = record.read_text().splitlines()
    if source.endswith("step-5"):
        lines = [line for line in lines if json.loads(line)["step"] <= 5]
        record.write_text("".join(line + "\\n" for line in lines))
    step = json.loads(lines[-1])["step"]
"""


class KilledTrainerTest(unittest.TestCase):
    def test_goes_on_and_says_from_where(self):
        with tempfile.TemporaryDirectory() as name:
            command = [sys.executable, "-c", STAND_IN]
            with killed_trainer.KilledTrainer(command, pathlib.Path(name)) as job:
                job.wait_for_checkpoint()
                first = job.end_of_step()
                found = [job.kill_one(random.Random(1)) for _ in range(2)]
                last = job.end_of_step()
                ranks, steps = job.ranks(), job.step_seconds()
            self.assertEqual([each.source for each in found], [killed_trainer.MEMORY, killed_trainer.CHECKPOINT])
            self.assertTrue(all(0.02 < each.seconds < 20 for each in found))
            self.assertGreaterEqual(first[1], 5)
            self.assertEqual(sorted(steps)[: last[1]], list(range(1, last[1] + 1)))
            self.assertEqual(len(ranks), 2)
            self.assertFalse(any(map(killed_trainer.is_alive, ranks)))

    def test_that_ends_is_an_error_with_its_words(self):
        with tempfile.TemporaryDirectory() as name:
            command = [sys.executable, "-c", "raise SystemExit('no such data')"]
            with killed_trainer.KilledTrainer(command, pathlib.Path(name)) as job:
                with self.assertRaisesRegex(ContestantFailed, "no first step.*\n.*no such data"):
                    job.wait_for_checkpoint()


if __name__ == "__main__":
    unittest.main()
