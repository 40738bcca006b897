"""The PyTorch contestants. Nothing outside of this package imports torch."""
