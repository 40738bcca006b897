"""Prints the version of PyTorch."""

import torch

if __name__ == "__main__":
    print(torch.__version__)
