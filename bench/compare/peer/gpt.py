"""The model of apps/models/gpt2.h in plain torch.nn: the same architecture, initialisation, names and loss."""

import math

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.c_attn(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.c_proj(mixed.transpose(1, 2).reshape(batch, length, width))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)), with x [batch, length, width]."""

    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = Mlp(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, width, layers, heads):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocabulary, width),
                "wpe": nn.Embedding(context, width),
                "h": nn.ModuleList(Block(width, heads) for _ in range(layers)),
                "ln_f": nn.LayerNorm(width),
            }
        )
        self.initialise(layers)

    @property
    def blocks(self):
        return self.transformer["h"]

    @torch.no_grad()
    def initialise(self, layers):
        for name, parameter in self.named_parameters():
            if parameter.dim() == 1:
                if name.endswith("bias"):
                    nn.init.zeros_(parameter)  # norms are ones already
            else:
                adds_to_x = name.endswith("c_proj.weight")
                nn.init.normal_(parameter, 0.0, 0.02 / math.sqrt(2 * layers) if adds_to_x else 0.02)

    def forward(self, tokens, targets):
        """The mean cross entropy in fp32: wrappers see no call but this one."""
        positions = torch.arange(tokens.size(1))
        embedding = self.transformer["wte"]
        x = embedding(tokens) + self.transformer["wpe"](positions)
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.transformer["ln_f"](x), embedding.weight).float()
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
