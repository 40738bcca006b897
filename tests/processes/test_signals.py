"""Programs whose parent ignores or blocks signals, and SIGUSR1 that comes early."""

import os
import signal
import unittest

from processes.programs import CONVERT, PLAN, TRAIN, ProgramTest, children_of, field
from processes.state import State

ASKS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
GO_ON_LATER = 75  # apps/training/job.h


def has(process, name, number):
    return field(process, name) >> (number - 1) & 1 == 1


class Signals(ProgramTest):
    def test_ranks_end_where_children_are_ignored(self):
        code, printed = self.ending(State(ignored=(signal.SIGCHLD,)), self.train("run", "--steps", "2", "--ranks", "2"))
        self.assertEqual(code, 0, printed)

    def test_a_killed_rank_is_started_again_where_children_are_ignored(self):
        process = self.start(State(ignored=(signal.SIGCHLD,)), self.train("run", "--steps", "60", "--ranks", "2",
                                                                          "--save-every", "2", "--max-restarts", "1"))
        self.wait_for_steps(process, "run")
        os.kill(children_of(process.pid)[1], signal.SIGKILL)
        process.wait(120)
        self.assertEqual(process.returncode, 0, self.printed())
        self.assertIn("(restart 1)", self.printed())

    def test_requests_to_stop_arrive_where_they_are_blocked(self):
        for ranks in ("1", "2"):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
                run = f"run-{ranks}-{int(number)}"
                with self.subTest(ranks=ranks, number=number):
                    process = self.start(State(blocked=ASKS), self.train(run, "--steps", "1000000", "--ranks", ranks))
                    self.wait_for_steps(process, run)
                    process.send_signal(number)
                    process.wait(120)
                    later = number != signal.SIGINT
                    self.assertEqual(process.returncode, GO_ON_LATER if later else 128 + number, self.printed())
                    self.assertTrue(list((self.folder / run).glob("step-*")), "nothing was saved")

    def test_programs_begin_with_no_signal_blocked(self):
        for program in (TRAIN, CONVERT, PLAN):
            process = self.start(State(blocked=ASKS, ignored=(signal.SIGCHLD,)), [program, "--help"])
            self.wait_until(process, lambda: field(process.pid, "SigBlk") == 0)
            self.wait_until(process, lambda: not has(process.pid, "SigIgn", signal.SIGCHLD))

    # Every command, not training alone, which asks for its end by it.
    def test_a_notice_kills_nothing(self):
        commands = {"man": ([TRAIN, "man"], 0),
                    "train": (self.train("run", "--steps", "1000000"), GO_ON_LATER),
                    "ranks": (self.train("ranks", "--steps", "1000000", "--ranks", "2"), GO_ON_LATER)}
        for name, (command, code) in commands.items():
            with self.subTest(name):
                process = self.start(State(), command)
                self.wait_until(process, lambda: has(process.pid, "SigCgt", signal.SIGUSR1))
                process.send_signal(signal.SIGUSR1)
                process.wait(120)
                self.assertEqual(process.returncode, code, self.printed())


if __name__ == "__main__":
    unittest.main()
