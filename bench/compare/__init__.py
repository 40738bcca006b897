"""Compares this library with PyTorch on the same work; bench/README.md says how to run it and how to read it."""
