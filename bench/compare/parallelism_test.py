"""Figures of pipelines and of divided layers.

PYTHONPATH=bench python3 -m unittest compare.parallelism_test
"""

import unittest

from compare import mixed, pipelines, spread, tensor_parallel

ROUNDS = [1.0, 2.0, 3.0, 4.0, 5.0]


def found(factor=1, losses=(8.0, 7.0), **more):
    return {"seconds": [factor * value for value in ROUNDS], "losses": list(losses)} | more


def of_schedules(names):
    shares = {"idle": [0.125] * 5, "idle_of_passes": [0.12] * 5, "idle_formula": [1 / 9] * 5}
    mine = {f"fsdp shm, {name}": found(**shares) for name in names}
    theirs = {f"{pipelines.PEER}, {name}": found(2, (8.0, 7.25), idle=[0.25] * 5) for name in names[1:]}
    return {pipelines.ALONE: found(1.5)} | mine | theirs


def pipelined():
    """PyTorch takes twice as long, and one process half as long again. The first schedule has no counterpart."""
    names = list(pipelines.SCHEDULES)
    same = {"shape": "a shape", "parameters": 2e6, "work": {"batch": 4, "shape": {"context": 128}}}
    rows = [same | {"ranks": ranks, "contestants": of_schedules(names)} for ranks in (2, 4)]
    return {"ours": "fsdp shm", "cores": 2, "rows": rows}


def divided():
    names = {tensor_parallel.ALONE: found(1.5), "fsdp shm": found(), tensor_parallel.PEER: found(2)}
    work = {"batch": 4, "ranks": 2, "shape": {"context": 128}}
    return {"works": [{"shape": "a shape", "parameters": 2e6, "work": work, "contestants": names}]}


def between_hosts():
    """Sharding over all ranks takes twice as long as a pipeline."""
    received = {"received": [2.0**20] * 5}
    names = {mixed.OVER_ALL: found(2) | received, mixed.PER_HOST: found(1.5) | received, mixed.PIPELINE: found() | received}
    return {"shape": "a shape", "context": 128, "parameters": 2e6, "contestants": names}


class PipelinesTest(unittest.TestCase):
    def test_a_stage_has_equally_many_layers_and_the_ends_have_one_block_more(self):
        self.assertEqual(pipelines.cuts_of(8, 1), [10])
        self.assertEqual(pipelines.cuts_of(8, 2), [5, 5])
        self.assertEqual(pipelines.cuts_of(8, 8), [2, 1, 1, 1, 1, 1, 1, 2])

    def test_idle_shares_stand_beside_the_formula_where_each_rank_has_a_core(self):
        text = "\n".join(pipelines.render(pipelined()))
        row = "| `ZeroBubble` | 3000.0 ±33 % | 6000.0 ±33 % | 0.50 ±0.0 % | 1.50 ±0.0 % |"
        self.assertEqual(text.count(row), 2)
        self.assertEqual(text.count(f"{row} 11.1 ±0.0 | 12.0 ±0.0 | 12.5 ±0.0 | 25.0 ±0.0 |"), 1)
        self.assertIn("| `OneAtATime` | 3000.0 ±33 % | – | – | 1.50 ±0.0 % | 11.1 ±0.0 | 12.0 ±0.0 | 12.5 ±0.0 | – |", text)

    def test_losses_are_compared_with_one_process(self):
        self.assertEqual(pipelines.loss_difference(pipelined()["rows"][0]), 0.25)

    def test_the_summary_compares_with_the_same_schedule(self):
        first = next(iter(pipelines.summary(pipelined())))
        ratio = {"PyTorch's": spread.Measured(0.5, 0.0)}
        self.assertEqual(first, ("A pipeline, 2 ranks, a shape, OneForwardOneBackward", "fsdp shm", ratio))


class DividedLayersTest(unittest.TestCase):
    def test_a_step_is_compared_with_the_peer_and_with_one_process(self):
        lines = tensor_parallel.render(divided())
        self.assertIn("| one process | 4500.0 ±33 % | 0.75 ±0.0 % | 1 | 0.0e+00 |", lines)
        self.assertIn("| fsdp shm | 3000.0 ±33 % | 0.50 ±0.0 % | 1.50 ±0.0 % | 0.0e+00 |", lines)
        ((_, name, multiples),) = tensor_parallel.summary(divided())
        self.assertEqual((name, multiples), ("fsdp shm", {tensor_parallel.PEER: spread.Measured(0.5, 0.0)}))


class BetweenHostsTest(unittest.TestCase):
    def test_a_step_is_compared_with_sharding_over_all_ranks(self):
        lines = mixed.render(between_hosts())
        self.assertIn(f"| {mixed.PIPELINE} | 1.0 | 3000.0 ±33 % | 0.50 ±0.0 % |", lines)
        ((_, _, multiples),) = mixed.summary(between_hosts())
        self.assertEqual(multiples, {"sharding over all ranks": spread.Measured(0.5, 0.0)})

    def test_says_why_nothing_was_measured(self):
        self.assertEqual(mixed.render({"problem": "no root"}), ["Not measured: no root."])


if __name__ == "__main__":
    unittest.main()
