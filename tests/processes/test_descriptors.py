"""Programs that are started without standard input, output or error: no file of theirs takes such a number."""

import os
import shutil
import time
import unittest

from processes.programs import CONVERT, HANG, MINIMAL, ProgramTest, children_of, stream_of
from processes.state import STREAMS, SUBSETS, State


class Descriptors(ProgramTest):
    def watch(self, process, closed):
        """Fails where a process of the program has another file as one of `closed` once these are the null device."""
        started = set()
        end = time.monotonic() + HANG
        while process.poll() is None:
            self.assertLess(time.monotonic(), end, f"closed: {closed}")
            for one in [process.pid, *children_of(process.pid)]:
                files = {number: stream_of(one, number) for number in closed}
                if set(files.values()) == {"/dev/null"}:
                    started.add(one)
                elif one in started and process.poll() is None and None not in files.values():
                    # A rank's outputs are pipes, and rank 0's are the launcher's.
                    wrong = [file for file in files.values() if file != "/dev/null" and not file.startswith("pipe:")]
                    self.assertEqual(wrong, [], f"closed: {closed}")
            time.sleep(0.001)
        self.assertIn(process.pid, started, f"closed: {closed}")

    def check(self, name, command_of):
        """The command of each subset does what it does with open streams."""
        code, printed = self.ending(State(), command_of("open"))
        self.assertEqual(code, 0, printed)
        right = self.tensors("open")
        self.assertTrue(right)
        for closed in SUBSETS:
            run = "closed-" + "".join(map(str, closed))
            with self.subTest(program=name, closed=closed):
                process = self.start(State(closed=closed), command_of(run))
                self.watch(process, closed)
                self.assertEqual(process.returncode, 0, self.printed())
                self.assertEqual(self.tensors(run), right)
            shutil.rmtree(self.folder / run, ignore_errors=True)

    def test_train_with_state_in_files(self):
        self.check("fsdp-train", lambda run: self.train(run, "--steps", "2", "--export", "--offload", "all"))

    def test_train_with_ranks(self):
        self.check("fsdp-train --ranks 2", lambda run: self.train(run, "--steps", "2", "--ranks", "2", "--hot-restart",
                                                                  "--max-restarts", "1"))

    def test_convert(self):
        code, printed = self.ending(State(), self.train("run", "--steps", "2"))
        self.assertEqual(code, 0, printed)
        self.check("fsdp-convert", lambda run: [CONVERT, self.folder / "run" / "step-2", self.folder / run, "--to", "hf"])

    @unittest.skipUnless(MINIMAL and os.path.exists(MINIMAL), "examples are not built")
    def test_a_program_that_launches(self):
        self.check("minimal", lambda run: [MINIMAL, self.folder / run])


if __name__ == "__main__":
    unittest.main()
