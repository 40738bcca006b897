"""Sharded training in a process with Python, whose engine of autograd goes on working: python in_python.py LIBRARY"""
import ctypes
import os
import sys

try:
    import torch
    from torch.utils.checkpoint import checkpoint
except ImportError as error:
    print("skipped:", error)
    sys.exit(1 if os.environ.get("FSDP_TEST_REQUIRE_ALL") == "1" else 77)


def squares():
    x = torch.ones(3, requires_grad=True)
    return x, (x * x).sum()


def check_hooks():
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        x, y = squares()
    y.backward()
    assert len(packed) == 2 and torch.equal(x.grad, torch.full((3,), 2.0)), packed


def check_checkpoint():
    for reentrant in (False, True):
        x = torch.ones(3, requires_grad=True)
        checkpoint(torch.exp, x, use_reentrant=reentrant).sum().backward()
        assert torch.equal(x.grad, x.detach().exp())


def check_anomaly_mode():
    x = torch.zeros(1, requires_grad=True)
    try:
        with torch.autograd.detect_anomaly(check_nan=True):
            (x / x).sum().backward()
    except RuntimeError as error:
        assert "returned nan" in str(error), error
    else:
        raise AssertionError("the NaN was not found")


squares()[1].backward()  # Python's engine has run before ours is installed
library = ctypes.CDLL(sys.argv[1])
library.train_in_python.restype = ctypes.c_char_p
problem = library.train_in_python().decode()
assert not problem, problem
check_hooks()
check_checkpoint()
check_anomaly_mode()
