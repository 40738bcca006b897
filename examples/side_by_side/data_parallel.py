# PyTorch DDP. Run it with: torchrun --nproc-per-node 2 data_parallel.py
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def batch_of(step, rank):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.rand(16, 8, generator=generator)
    return inputs, inputs.sum(1, keepdim=True)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
ddp = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-2)
for step in range(1, 61):
    inputs, targets = batch_of(step, rank)
    loss = nn.functional.mse_loss(ddp(inputs), targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
if rank == 0:
    print(f"last loss {loss.item():.4f}")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "ddp.pt")
dist.destroy_process_group()
