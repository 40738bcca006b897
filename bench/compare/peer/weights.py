"""Writes a model's first weights, the same for all contestants, and prints the number of its parameter elements."""

import argparse

import torch
from safetensors.torch import save_file

from compare.peer.arguments import add_shape, make_model


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_shape(parser)
    parser.add_argument("--output", required=True, help="the safetensors file")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    model = make_model(arguments)
    save_file({name: parameter.detach() for name, parameter in model.named_parameters()}, arguments.output)
    print(sum(parameter.numel() for parameter in model.parameters()))


if __name__ == "__main__":
    main()
