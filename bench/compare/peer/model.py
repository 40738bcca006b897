"""The model, the batch and the optimizer of a contestant, as in bench/contestants/training.cpp."""

import torch
from safetensors.torch import load_file

from compare.peer.arguments import make_model

WEIGHT_DECAY = 1e-2  # as fsdp::AdamW's default


def load_model(arguments):
    model = make_model(arguments)
    weights = load_file(arguments.weights)
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # a tied one once
            parameter.copy_(weights[name])
    return model


def make_batch(arguments, rank):
    """One rank's tokens and targets [batch, context], the same in every step."""
    generator = torch.Generator().manual_seed(1000 + rank)
    windows = torch.randint(arguments.vocabulary, (arguments.batch, arguments.context + 1), generator=generator)
    return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


def make_optimizer(arguments, parameters):
    return torch.optim.AdamW(parameters, lr=arguments.lr, weight_decay=WEIGHT_DECAY, fused=True)
