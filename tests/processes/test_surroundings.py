"""Programs in surroundings that lack something: the working folder, room on the stack, /proc; and very long paths."""

import os
import shutil
import subprocess
import unittest

from processes.programs import CONVERT, PLAN, TRAIN, ProgramTest
from processes.state import State

LONG = "/tmp/" + "/".join(["a" * 200] * 25)


def may_unmount():
    """Whether a process may hide /proc from itself."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode == 0


class Surroundings(ProgramTest):
    def test_a_removed_folder_is_said(self):
        gone = self.folder / "gone"
        for program, command in (("fsdp-train", self.train("run", "--steps", "2")), ("fsdp-convert", [CONVERT, "a", "b"]),
                                 ("fsdp-plan", [PLAN, "textbook"])):
            gone.mkdir()
            shell = ["sh", "-c", f'rmdir {gone}; exec "$@"', "sh", *command]
            code, printed = self.ending(State(), shell, cwd=gone)
            self.assertEqual((code, printed), (2, f"{program}: the working folder was removed. Change to a folder that "
                                                  "exists (cd), and start again.\n"))

    def test_a_small_stack_is_said(self):
        for program, command in (("fsdp-train", [TRAIN, "--help"]), ("fsdp-convert", [CONVERT, "--help"]),
                                 ("fsdp-plan", [PLAN, "--help"])):
            code, printed = self.ending(State(stack=64 << 10), command)
            self.assertEqual((code, printed), (2, f"{program}: the limit of the stack is less than 128 kB. Raise it: "
                                                  "ulimit -s 8192\n"))

    def test_a_smaller_stack_than_usual_will_do(self):
        for ranks in ("1", "2"):
            code, printed = self.ending(State(stack=1 << 20), self.train("run" + ranks, "--steps", "2", "--ranks", ranks))
            self.assertEqual(code, 0, printed)

    def test_a_path_that_is_too_long_is_an_error(self):
        run = self.train("run", "--steps", "2")
        commands = [self.train(LONG, "--steps", "2"), *([*run, flag, LONG] for flag in (
                        "--init-from", "--checkpoint", "--resume", "--tokenizer", "--validation", "--cache", "--model",
                        "--offload-directory", "--config")),
                    [TRAIN, "--text", LONG], [TRAIN, "--data", LONG], [TRAIN, "sample", LONG], [TRAIN, "report", LONG],
                    [TRAIN, "prepare", "--text", self.text, "--output", LONG],
                    [CONVERT, LONG, self.folder / "target", "--to", "hf"],
                    [CONVERT, self.text, LONG, "--to", "hf"]]
        for command in commands:
            with self.subTest(str(command[-2:])[:80]):
                code, printed = self.ending(State(), command)
                self.assertEqual(code, 2, printed)
                self.assertIn(f" is a path of {len(LONG)} bytes, and the system takes 4095. Name a shorter one.", printed)

    @unittest.skipUnless(may_unmount(), "this user may not unmount /proc")
    def test_without_proc_one_rank_trains_and_more_are_refused(self):
        for hide in ("umount -l /proc", "mount -t tmpfs none /proc"):
            def hidden(command):
                return ["unshare", "-m", "sh", "-c", f'{hide} && exec "$@"', "sh", *command]

            code, printed = self.ending(State(), hidden(self.train("run", "--steps", "2", "--resume", "never")))
            self.assertEqual(code, 0, printed)
            for command in (self.train("ranks", "--steps", "2", "--ranks", "2"), [TRAIN, "doctor"]):
                code, printed = self.ending(State(), hidden(command))
                self.assertEqual(code, 1, printed)
                printed = " ".join(printed.split())
                self.assertIn("launch: /proc/self/task cannot be read", printed)
                self.assertIn("Mount it (mount -t proc proc /proc)", printed)
            shutil.rmtree(self.folder / "run")


if __name__ == "__main__":
    unittest.main()
