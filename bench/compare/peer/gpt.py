"""The model of apps/models/gpt.h in plain torch.nn: the same architecture, initialisation, names and loss."""

import math

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)), with x [batch, length, width]."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.mlp_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def attention(self, x):
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.projection(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.down(functional.gelu(self.up(self.mlp_norm(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, width, layers, heads):
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.position_embedding = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.final_norm = nn.LayerNorm(width)
        self.initialise(layers)

    @torch.no_grad()
    def initialise(self, layers):
        for name, parameter in self.named_parameters():
            if name.endswith("norm.weight"):
                continue  # ones already
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                adds_to_x = name.endswith(("projection.weight", "down.weight"))
                nn.init.normal_(parameter, 0.0, 0.02 / math.sqrt(2 * layers) if adds_to_x else 0.02)

    def forward(self, tokens, targets):
        """The mean cross entropy in fp32: wrappers see no call but this one."""
        positions = torch.arange(tokens.size(1))
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.final_norm(x), self.token_embedding.weight).float()
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
