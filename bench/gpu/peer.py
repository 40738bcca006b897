"""The step of gpt.h's model in PyTorch, for scripts/gpu-check: prints one line of JSON, as bench_gpu_speed does.

Variants: plain (bf16 weights), ddp and nano (fp32 weights, autocast), fsdp2 (mixed precision); with the words "clipped"
and "recomputed". nano is a trainer's step: clipped, and the loss is read each tenth time only. Nothing is compiled.
"""

import argparse
import contextlib
import json
import os
import statistics
import time

import torch
import torch.distributed
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WARM_UP = 3


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.tokens = nn.Embedding(options.vocabulary, options.width)
        self.places = nn.Embedding(options.context, options.width)
        self.blocks = nn.ModuleList(Block(options.width, options.heads) for _ in range(options.layers))
        self.norm = nn.LayerNorm(options.width)
        self.recomputed = "recomputed" in options.variant
        with torch.no_grad():
            self.tokens.weight.mul_(0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recomputed else block(x)
        logits = functional.linear(self.norm(x), self.tokens.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    options = parse()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    torch.cuda.set_device(0)
    torch.distributed.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", 0))
    torch.manual_seed(0)
    model, context = prepare(Gpt(options).cuda(), options)
    found = train(model, context, options, rank, world)
    if rank == 0:
        print("RESULT", json.dumps(found), flush=True)
    os._exit(0)  # NCCL's threads are of no interest any more


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", default="plain")
    for name, default in dict(layers=12, width=768, heads=12, context=1024, vocabulary=50304, batch=8, steps=23).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def prepare(model, options):
    """The model as the variant has it, and the context of its forward."""
    if "plain" in options.variant:
        return model.bfloat16(), contextlib.nullcontext
    if "fsdp2" in options.variant:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for block in model.blocks:
            fully_shard(block, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
        return model, contextlib.nullcontext
    if "ddp" in options.variant:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[0], gradient_as_bucket_view=True)
    return model, lambda: torch.autocast("cuda", torch.bfloat16)


def train(model, context, options, rank, world):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    is_trainer = "nano" in options.variant
    clips = is_trainer or "clipped" in options.variant

    def forward_backward(tokens, targets):
        with context():
            loss = model(tokens, targets)
        loss.backward()
        if clips:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        return loss

    def update():
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    rows, losses = [], []
    for step in range(options.steps):
        batch = make_batch(options, 1000 + step * world + rank)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loss = forward_backward(*batch)
        if not is_trainer:
            torch.cuda.synchronize()
        middle = time.perf_counter()
        update()
        torch.cuda.synchronize()
        end = time.perf_counter()
        rows.append((end - begin, middle - begin, end - middle))
        if not is_trainer or step % 10 == 0 or step + 1 == options.steps:
            losses.append(loss.item())
    step, forward, optimizer_time = (1000 * statistics.median(column) for column in zip(*rows[WARM_UP:]))
    found = {"step_ms": step}
    if not is_trainer:  # nothing waits between the two
        found |= {"forward_backward_ms": forward, "optimizer_ms": optimizer_time}
    found |= {"first_loss": losses[0], "last_loss": losses[-1], "peak_mib": torch.cuda.max_memory_allocated() >> 20}
    batch = make_batch(options, 1)
    return found | calls_of(lambda: (forward_backward(*batch), update()))


def make_batch(options, seed):
    random = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, options.vocabulary, (options.batch, options.context + 1), generator=random).cuda()
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def calls_of(step):
    """The host's calls of CUDA in one step, by kind."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        step()
    names = [event.name for event in profile.events()]
    return {
        "launches": sum(name.startswith(("cudaLaunch", "cuLaunch")) for name in names),
        "copies": sum(name.startswith("cudaMemcpy") for name in names),
        "waits": sum(name.startswith("cuda") and "Synchronize" in name for name in names),
    }


if __name__ == "__main__":
    main()
