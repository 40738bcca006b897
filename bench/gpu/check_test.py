"""The check on a GPU with stand-ins for its programs: times, failures, the table, and what is packed.

PYTHONPATH=tools:bench python3 -m unittest check_test, in bench/gpu
"""

import contextlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

from check import page, parts, read, runner
from libtorch import matrix, wheels


def program(code):
    return [sys.executable, "-c", code]


def part(name, code, reader=read.step, **more):
    return runner.Part(name, [program(code)], reader, **more)


GOOD = part("good", "print('RESULT {\"step_ms\": 2.5}')")


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_parts(self, *parts, seconds=60):
        return runner.run(parts, seconds, self.folder, say=lambda text: None)


class Runner(Folder):
    def test_a_part_that_fails_does_not_hide_the_others(self):
        crash = part("crash", "import os; print('before'); os.abort()")
        silent = part("silent", "pass")
        missing = runner.Part("missing", [["/no/such/program"]], read.step)
        results = self.run_parts(crash, silent, missing, GOOD)
        self.assertEqual([one.state for one in results], ["failed", "failed", "failed", "ok"])
        self.assertIn("before", results[0].output)
        self.assertIn("no line with the figures", results[1].output)
        self.assertIn("/no/such/program", results[2].output)
        self.assertEqual(results[3].figures, {"step_ms": 2.5})

    def test_figures_of_a_program_that_fails_in_the_end_are_kept(self):
        (result,) = self.run_parts(part("late", "print('RESULT {\"step_ms\": 1}'); raise SystemExit(3)"))
        self.assertEqual((result.state, result.figures), ("failed", {"step_ms": 1}))

    def test_a_part_that_hangs_ends_with_its_children(self):
        child = "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); " \
                "print(child.pid, flush=True); child.wait()"
        begin = time.monotonic()
        hung, good = self.run_parts(part("hung", child, limit=1), GOOD)
        self.assertEqual((hung.state, good.state), ("too slow", "ok"))
        self.assertLess(time.monotonic() - begin, 30)
        deadline = time.monotonic() + 30  # its new parent has to see its end
        while is_alive(int(hung.output)) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(is_alive(int(hung.output)))

    def test_without_time_the_rest_is_not_run(self):
        slow = part("slow", "import time; time.sleep(60)")
        self.assertEqual([one.state for one in self.run_parts(slow, GOOD, seconds=1)], ["too slow", "not run"])

    def test_parts_of_a_group_run_together(self):
        meet = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch()\n" \
               "while not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.01)\nprint('RESULT {}')"
        a, b = self.folder / "a", self.folder / "b"
        both = [runner.Part(name, [[*program(meet), *paths]], read.step, 30, "together")
                for name, paths in (("first", (a, b)), ("second", (b, a)))]
        self.assertEqual([one.state for one in self.run_parts(*both, GOOD)], ["ok", "ok", "ok"])

    def test_all_processes_of_a_part_have_to_succeed(self):
        tell = "import os; print('RESULT {\"rank\": %s}' % os.environ['RANK']); raise SystemExit(int(os.environ['RANK']))"
        (result,) = self.run_parts(runner.Part("ranks", parts.two_ranks(program(tell), 1), read.step))
        self.assertEqual((result.state, result.figures), ("failed", {"rank": 0}))
        self.assertIn("exit codes [0, 1]", result.output)


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Read(Folder):
    def test_tests(self):
        output = "[  PASSED  ] 4 tests.\n[  SKIPPED ] 1 test, listed below:\n[  FAILED  ] Cuda.Clips (3 ms)\n" \
                 "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] Cuda.Clips\n"
        self.assertEqual(read.gtest(output), {"passed": 4, "skipped": 1, "failed": 1, "names": "Cuda.Clips"})
        self.assertRaises(ValueError, read.gtest, "[ RUN      ] Cuda.Clips\n")

    def test_kinds_of_models_of_prefixed_ranks(self):
        output = "[rank 0] RESULT experts: the same bits\n[rank0] RESULT adapters: 3 of 9 weights differ, by 1e-7 at most\n"
        self.assertEqual(read.kinds(output), {"experts": "the same bits",
                                              "adapters": "3 of 9 weights differ, by 1e-7 at most"})
        self.assertRaises(ValueError, read.kinds, "nothing")

    def test_steps_of_the_trainer_but_the_first(self):
        path = self.folder / "metrics.jsonl"
        record = {f"{name}_seconds": 0.001 for name in ("forward_backward", "optimizer", "data", "other")}
        records = [{"start": 1}, *({"loss": 1, "step_seconds": 1 + step, **record} for step in range(read.WARM_UP + 3))]
        path.write_text("".join(json.dumps(one) + "\n" for one in records))
        self.assertEqual(read.trainer(path)("")["step_ms"], 1000 * (read.WARM_UP + 2))
        path.write_text("")
        self.assertRaises(ValueError, read.trainer(path), "")


class Page(unittest.TestCase):
    RESULTS = [runner.Result("first", "ok", 2.4, {"step_ms": 1.25, "launches": 7}),
               runner.Result("second", "failed", 3, {}, "why")]

    def test_the_table_has_a_row_for_each_part_and_the_output_of_those_that_failed(self):
        self.assertEqual(page.table(self.RESULTS), "part    result  s  figures\n"
                                                   "first   ok      2  step_ms 1.2, launches 7\n"
                                                   "second  failed  3\n\nsecond, failed:\nwhy")

    def test_json_has_all(self):
        found = json.loads(page.as_json(self.RESULTS, {"GPU": "one"}))
        self.assertEqual(found["machine"], {"GPU": "one"})
        self.assertEqual([one["state"] for one in found["parts"]], ["ok", "failed"])


class WholeCheck(Folder):
    def test_with_stand_ins_for_all_programs(self):
        packed, torch = self.folder / "packed", self.folder / "python/torch"
        (packed / "bin").mkdir(parents=True)
        torch.mkdir(parents=True)
        (torch / "__init__.py").touch()
        shutil.copytree(pathlib.Path(__file__).parent / "check", packed / "check")
        libraries = f"{packed}/lib:{torch}/lib"
        stand_in = f"#!{sys.executable}\nimport os\nassert os.environ['LD_LIBRARY_PATH'].startswith('{libraries}')\n" \
                   "print('RESULT {\"step_ms\": 1}')\n"
        for name in ("bench_gpu_models", "bench_gpu_speed", "test_cuda", "fsdp-train"):
            (packed / "bin" / name).write_text(stand_in)
            (packed / "bin" / name).chmod(0o755)
        ended = subprocess.run([sys.executable, "-B", "-m", "check", "--only", "1.3 B", "--only", "tests",
                                "--output", self.folder / "out"], cwd=packed, capture_output=True, text=True,
                               env={**os.environ, "PYTHONPATH": f"{packed}:{torch.parent}"})
        self.assertEqual(ended.returncode, 1, ended.stderr)
        found = json.loads((self.folder / "out/results.json").read_text())["parts"]
        states = {one["name"]: one["state"] for one in found}
        self.assertEqual(states["1.3 B, 4 x 1024: sharded"], "ok", found)
        self.assertEqual(states["tests"], "failed")
        self.assertIn("1.3 B, 4 x 1024: sharded", ended.stdout)

    def test_without_torch_it_says_so(self):
        from check import __main__ as check
        with mock.patch("importlib.util.find_spec", return_value=None), self.assertRaises(SystemExit) as ended:
            check.environment()
        self.assertIn("has no torch", str(ended.exception))

    def test_parts_have_names_of_their_own_and_correctness_comes_first(self):
        groups = runner.groups_of(parts.all_parts(self.folder, self.folder))
        self.assertEqual(len(groups[0]), 4)
        names = [one.name for group in groups for one in group]
        self.assertEqual(len(names), len(set(names)))


class Wheels(unittest.TestCase):
    METADATA = "Requires-Dist: sympy\n" \
               'Requires-Dist: cuda-toolkit[cublas,cudart]==13.0.2; platform_system == "Linux"\n' \
               'Requires-Dist: nvidia-nccl-cu13==2.28.9; platform_system == "Linux"\n'

    def test_requirements_are_those_of_cuda_and_two_packages_of_headers(self):
        self.assertEqual(wheels.requirements(self.METADATA),
                         ["cuda-toolkit[cublas,cudart]==13.0.2", "nvidia-nccl-cu13==2.28.9", "nvidia-cuda-crt==13.0.*",
                          "nvidia-cuda-cccl==13.0.*"])
        self.assertEqual(wheels.requirements("Requires-Dist: sympy\n"), [])


class Matrix(Folder):
    def test_a_step_that_fails_is_a_cell(self):
        steps = []

        def run(build, step, command):
            steps.append(step)
            (build / matrix.file_of(step)).write_text("50% tests passed, 2 tests failed out of 4\n")
            return step != "programs"

        options = mock.Mock(folder=self.folder, jobs=1, until="tests run", tests=None)
        with mock.patch.object(wheels, "fetch", return_value=self.folder), mock.patch.object(matrix, "run", run):
            row = matrix.try_version("2.11.0", options)
        self.assertEqual(steps, ["configure", "library", "programs", "tests compiled", "tests run"])
        self.assertEqual(row, ["2.11.0", "yes", f"no: {self.folder}/build-2.11.0/programs.txt", "yes", "4", "2"])
        self.assertEqual(matrix.table([row]).splitlines()[1].split(" | ")[0].strip(), "2.11.0")

    def test_a_version_that_cannot_be_fetched_is_a_row(self):
        options = mock.Mock(folder=self.folder)
        with mock.patch.object(wheels, "fetch", side_effect=subprocess.CalledProcessError(1, "pip")):
            self.assertEqual(matrix.try_version("9.9.9", options)[1], "no: not fetched")

    def test_any_failure_is_the_exit_code(self):
        for row, code in ((["2.11.0", "yes", "yes", "yes", "4", "0"], 0), (["2.11.0", "yes", "yes", "yes", "4", "1"], 1),
                          (["2.11.0", "no: x", "", "", "", ""], 1)):
            with mock.patch.object(matrix, "try_version", return_value=row), \
                    mock.patch.object(sys, "argv", ["matrix", "2.11.0"]), \
                    contextlib.redirect_stdout(io.StringIO()), self.assertRaises(SystemExit) as ended:
                matrix.main()
            self.assertEqual(int(ended.exception.code), code)


if __name__ == "__main__":
    unittest.main()
