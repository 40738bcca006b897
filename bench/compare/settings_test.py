"""Figures of strategies, dtypes, and a Llama.

PYTHONPATH=bench python3 -m unittest compare.settings_test
"""

import unittest

from compare import settings
from compare.contestants import PEERS, PLAIN

ROUNDS = [1.0, 2.0, 3.0, 4.0, 5.0]
WORK = {"shape": "a shape", "parameters": 2e6, "work": {"batch": 1, "ranks": 2, "shape": {"context": 128}}}


def found(factor=1, **more):
    return {"seconds": [factor * value for value in ROUNDS], "waited": ROUNDS, "losses": [8.0, 7.0]} | more


def in_other_settings():
    """PyTorch takes twice as long, fp16 twice as long as bf16."""
    names = {
        name: {dtype: f"{name}, {dtype}" for dtype in settings.DTYPES} for name in ("fsdp shm", PEERS["fsdp2"])
    }
    factors = {"fp32": 1, "bf16": 1, "fp16": 2}
    dtypes = {
        name: found(factors[dtype] * factor)
        for factor, of in zip((1, 2), names.values())
        for dtype, name in of.items()
    }
    strategies = {
        "fsdp gloo": found(),
        "fsdp NoShard gloo": found(),
        "fsdp ShardOptimizer gloo": found(),
        PEERS["fsdp2"]: found(2, waited=[None] * 5),
        PEERS["ddp"]: found(4, waited=[None] * 5),
    }
    llama = {PLAIN: found(), "fsdp shm": found(), PEERS["fsdp2"]: found(2, losses=[8.0, 7.25])}
    counterparts = {"fsdp gloo": PEERS["fsdp2"], "fsdp NoShard gloo": PEERS["ddp"]}
    return {
        "dtypes": WORK | {"contestants": dtypes, "names": names},
        "llama": WORK | {"contestants": llama},
        "strategies": WORK | {"contestants": strategies, "counterparts": counterparts},
    }


class SettingsTest(unittest.TestCase):
    def test_a_strategy_stands_beside_its_counterpart(self):
        text = "\n".join(settings.render(in_other_settings()))
        self.assertIn("| fsdp gloo | 3000.0 ±33 % | 1 | 0.50 ±0.0 % | 3000.0 ±33 % |", text)
        self.assertIn("| fsdp NoShard gloo | 3000.0 ±33 % | 1 | 0.25 ±0.0 % | 3000.0 ±33 % |", text)
        self.assertIn("| fsdp ShardOptimizer gloo | 3000.0 ±33 % | 1 | – | 3000.0 ±33 % |", text)
        self.assertIn(f"| {PEERS['ddp']} | 12000.0 ±33 % | 4.00 ±0.0 % | – | – |", text)

    def test_each_dtype_stands_beside_bf16_and_the_peer(self):
        text = "\n".join(settings.render(in_other_settings()))
        self.assertIn("| fsdp shm, fp16 | 6000.0 ±33 % | 2.00 ±0.0 % | 0.50 ±0.0 % | 7.0000 |", text)
        remarks = [text for _, text in settings.remarks(in_other_settings())]
        slower = "takes 2.00 ±0.0 % of the same in bf16"
        self.assertEqual(remarks, [f"a step of {name}, fp16, {slower}" for name in ("fsdp shm", PEERS["fsdp2"])])

    def test_losses_of_a_llama_are_compared(self):
        text = "\n".join(settings.render(in_other_settings()))
        self.assertIn(f"| {PEERS['fsdp2']} | 6000.0 ±33 % | 1 | 2.00 ±0.0 % | 2.5e-01 |", text)

    def test_a_processor_without_bf16_has_fp32_alone(self):
        result = in_other_settings()
        for of in result["dtypes"]["names"].values():
            for dtype in settings.DTYPES[1:]:
                del result["dtypes"]["contestants"][of.pop(dtype)]
        self.assertIn("| fsdp shm, fp32 | 3000.0 ±33 % | – | 0.50 ±0.0 % | 7.0000 |", settings.render(result))
        self.assertEqual(list(settings.remarks(result)), [])


if __name__ == "__main__":
    unittest.main()
