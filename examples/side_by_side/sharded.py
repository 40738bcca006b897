# PyTorch FSDP (fully_shard). Run it with: torchrun --nproc-per-node 2 sharded.py
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def batch_of(step, rank):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.rand(16, 8, 32, generator=generator)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 128, dropout=0.0), 4, enable_nested_tensor=False)
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in model.layers:
    fully_shard(layer, mesh=mesh, mp_policy=policy)
fully_shard(model, mesh=mesh, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(1, 21):
    for micro_batch in range(2):
        model.set_requires_gradient_sync(micro_batch == 1)
        inputs = batch_of(2 * step + micro_batch, rank)
        loss = nn.functional.mse_loss(model(inputs).float(), inputs) / 2
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
if rank == 0:
    print(f"last loss {2 * loss.item():.4f}")
model_state, optimizer_state = get_state_dict(model, optimizer)
checkpoint.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id="fsdp")
dist.destroy_process_group()
