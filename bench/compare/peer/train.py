"""A training step of PyTorch or DeepSpeed, as one rank of a job over Gloo, one thread."""

import argparse
import contextlib

import torch
import torch._dynamo  # otherwise loaded by the first optimizer, and counted as memory of the model
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from compare.peer import fsdp2
from compare.peer.arguments import add_training
from compare.peer.conversation import seconds_of
from compare.peer.model import load_model, make_batch, make_optimizer
from compare.peer.rank import run_rank, take_steps


DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def with_ddp(model, dtype):
    """In fp32; where fewer bits are asked for, autocast computes in them (`Training.step`)."""
    return torch.nn.parallel.DistributedDataParallel(model)


def with_compiled_ddp(model, dtype):
    return torch.compile(with_ddp(model, dtype))


def with_fsdp1(model, dtype):
    return FullyShardedDataParallel(
        model,
        auto_wrap_policy=ModuleWrapPolicy({type(model.blocks[0])}),
        device_id=torch.device("cpu"),
        mixed_precision=MixedPrecision(param_dtype=dtype, reduce_dtype=torch.float32),
        use_orig_params=True,
    )


WRAPPERS = {
    "ddp": with_ddp,
    "ddp-compile": with_compiled_ddp,
    "ddp-autocast": with_ddp,
    "fsdp1": with_fsdp1,
    **fsdp2.WRAPPERS,
}
DEEPSPEED = "deepspeed"


class WrappedTraining:
    """A wrapper of PyTorch around the model, and its optimizer."""

    def __init__(self, arguments):
        self.model = WRAPPERS[arguments.kind](load_model(arguments), DTYPES[arguments.dtype])
        self.optimizer = make_optimizer(arguments, self.model.parameters())
        self.autocasts = arguments.kind == "ddp-autocast"
        # Gradients in fp16 would vanish without; in other dtypes it does nothing.
        self.scaler = torch.amp.GradScaler("cpu", enabled=arguments.dtype == "fp16")

    def step(self, batch):
        """Returns the loss."""
        with torch.autocast("cpu", torch.bfloat16) if self.autocasts else contextlib.nullcontext():
            loss = self.model(*batch)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return loss.item()


class ZeroTraining:
    """DeepSpeed's ZeRO-3, with its defaults and PyTorch's fused AdamW."""

    def __init__(self, arguments):
        import deepspeed

        model = load_model(arguments)
        config = {
            "train_micro_batch_size_per_gpu": arguments.batch,
            "zero_optimization": {"stage": 3},
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            "gradient_clipping": 0.0,  # its default is 1
            "bf16": {"enabled": arguments.dtype == "bf16"},
        }
        optimizer = make_optimizer(arguments, model.parameters())
        self.engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)

    def step(self, batch):
        loss = self.engine(*batch)
        self.engine.backward(loss)
        self.engine.step()
        return loss.item()


class Training:
    def __init__(self, arguments):
        self.training = (ZeroTraining if arguments.kind == DEEPSPEED else WrappedTraining)(arguments)
        self.batch = make_batch(arguments, dist.get_rank())
        self.losses = []

    def step(self):
        self.losses.append(self.training.step(self.batch))

    def steps(self, count):
        self.losses = []
        return {"seconds": [seconds_of(self.step) for _ in range(count)], "losses": self.losses}


def prepare(kind):
    if kind == DEEPSPEED:
        import deepspeed  # now, so that it is no memory of the model

        deepspeed.init_distributed(dist_backend="gloo")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=[*WRAPPERS, DEEPSPEED])
    add_training(parser)
    arguments = parser.parse_args()
    nothing = dict.fromkeys(("memory", "activations"), lambda training, command: {})
    run_rank(lambda: Training(arguments), {"steps": take_steps} | nothing, lambda: prepare(arguments.kind))


if __name__ == "__main__":
    main()
