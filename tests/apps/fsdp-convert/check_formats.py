"""Formats as Python reads and writes them, beside fsdp-convert.

    check_formats.py TASK FSDP_CONVERT FSDP_TRAIN FOLDER

Ends with 0, with 77 where a package is missing, and otherwise with an assertion.
"""

import json
import os
import pathlib
import pickle
import subprocess
import sys

SKIPPED = 77
try:
    import safetensors.torch
    import torch
    import torch.distributed.checkpoint as dcp
except ImportError as error:
    print(error)
    sys.exit(SKIPPED)

CONVERT, TRAIN, FOLDER = sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True)


def convert(source, target, *more):
    done = run(CONVERT, FOLDER / source, FOLDER / target, *more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def same(found, expected, where=""):
    """Nested dicts with the same keys and the same bits."""
    if isinstance(expected, dict):
        assert set(found) == set(expected), (where, set(found) ^ set(expected))
        for key, value in expected.items():
            same(found[key], value, f"{where}/{key}")
    elif isinstance(expected, torch.Tensor):
        assert found.dtype == expected.dtype and found.shape == expected.shape, (where, found, expected)
        assert torch.equal(found, expected), where
    else:
        assert found == expected, (where, found, expected)


def load(name):
    return torch.load(FOLDER / name, weights_only=True)


def net():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.Flatten(),
                               torch.nn.Linear(12, 5))


def training_state():
    """A model after some steps, with the state of its optimizer by the names of parameters."""
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(3):
        model(torch.randn(4, 2, 4, 4)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    state = {name: dict(optimizer.state[parameter]) for name, parameter in model.named_parameters()}
    return {"model": dict(model.state_dict()), "optimizer": {"state": state}, "step": 3}


def numbered():
    """What most loops save: the state dict of an optimizer, which calls parameters by numbers."""
    def saved(name, groups):
        model = net()
        optimizer = torch.optim.AdamW(groups(model), lr=1e-2)
        model(torch.randn(4, 2, 4, 4)).square().sum().backward()
        optimizer.step()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 1}, FOLDER / name)
        said = convert(name, f"again-{name}")
        states = {name: dict(optimizer.state[parameter]) for name, parameter in model.named_parameters()}
        return load(f"again-{name}"), {"model": dict(model.state_dict()), "optimizer": {"state": states}, "step": 1}, said

    found, expected, _ = saved("in-order.pt", lambda model: model.parameters())
    same(found, expected)
    found, expected, _ = saved("named.pt", lambda model: [
        {"params": [one for one in model.named_parameters() if one[1].dim() > 1]},
        {"params": [one for one in model.named_parameters() if one[1].dim() == 1], "weight_decay": 0}])
    same(found, expected)
    found, expected, said = saved("groups.pt", lambda model: [
        {"params": [one for one in model.parameters() if one.dim() > 1]},
        {"params": [one for one in model.parameters() if one.dim() == 1], "weight_decay": 0}])
    same(found, expected["model"])
    assert "its parameters have numbers" in said, said


def torch_save():
    state = training_state()
    torch.save(net().state_dict(), FOLDER / "plain.pt")
    convert("plain.pt", "plain-again.pt")
    same(load("plain-again.pt"), dict(net().state_dict()))
    torch.save({**state, "config": {"lr": 1e-2, "betas": (0.9, 0.95)}, "name": "a run"}, FOLDER / "run.pt")
    assert "Left out" in convert("run.pt", "run", "--to", "fsdp")
    convert("run", "again.pt")
    same(load("again.pt"), state)
    same(torch.load(FOLDER / "again.pt", weights_only=True, mmap=True), state)
    numbered()
    w = torch.arange(12.0).view(3, 4)
    odd = {"transposed": w.t(), "rows": w[1:], "column": w[:, 1], "number": torch.tensor(3.5),
           "empty": torch.empty(0, 3), "parameter": torch.nn.Parameter(w.clone()),
           "channels_last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)}
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
                  torch.uint8, torch.bool):
        odd[str(dtype)] = torch.arange(5).to(dtype)
    torch.save(odd, FOLDER / "odd.pt")
    convert("odd.pt", "odd-again.pt")
    same(load("odd-again.pt"), {name: tensor.detach() for name, tensor in odd.items()})
    torch.save({"a": w, "b": w, "c": w[0]}, FOLDER / "tied.pt")
    convert("tied.pt", "tied-again.pt")
    tied = load("tied-again.pt")
    assert tied["a"].data_ptr() == tied["b"].data_ptr()
    same(tied, {"a": w, "b": w, "c": w[0]})
    torch.save({"app": {"model": state["model"]}}, FOLDER / "outer.pt")
    convert("outer.pt", "outer-again.pt")
    same(load("outer-again.pt"), state["model"])


class Command:
    def __reduce__(self):
        return os.system, (f"touch {FOLDER / 'was-run'}",)


def hostile():
    def refusal(name, *texts):
        done = run(CONVERT, FOLDER / name, FOLDER / "target", "--to", "hf")
        said = done.stdout + done.stderr
        assert done.returncode in (1, 2) and name in said, said
        for text in texts:
            assert text in said, (text, said)
        assert not (FOLDER / "target").exists()

    torch.save({"w": torch.ones(2), "x": Command()}, FOLDER / "command.pt")
    refusal("command.pt", "calls posix.system of Python", "fsdp-convert runs no code of files")
    torch.save({"w": torch.ones(2)}, FOLDER / "old.pt", _use_new_zipfile_serialization=False)
    refusal("old.pt", "before PyTorch 1.6")
    (FOLDER / "plain.pkl").write_bytes(pickle.dumps({"w": [1, 2]}))
    refusal("plain.pkl", "is a pickle")
    torch.save({"w": torch.ones(1).expand(1 << 20, 1 << 20)}, FOLDER / "expanded.pt")
    refusal("expanded.pt", "expanded")
    torch.save({"w": torch.ones(2, dtype=torch.complex64)}, FOLDER / "complex.pt")
    refusal("complex.pt", "ComplexFloatStorage")
    torch.save(net(), FOLDER / "module.pt")  # a whole module, by its class
    refusal("module.pt", "torch.nn.modules")
    metadata = FOLDER / "dcp"
    dcp.save({"w": torch.ones(2)}, checkpoint_id=metadata, no_dist=True)
    (metadata / ".metadata").write_bytes(pickle.dumps(Command()))
    refusal("dcp", "posix.system")
    assert not (FOLDER / "was-run").exists()


def hugging_face():
    tensors = {name: tensor.contiguous() for name, tensor in net().state_dict().items()}
    torch.save(tensors, FOLDER / "model.pt")
    convert("model.pt", "one", "--to", "hf")
    same(safetensors.torch.load_file(FOLDER / "one" / "model.safetensors"), tensors)
    convert("model.pt", "several", "--to", "hf", "--max-shard-size", "200", "--dtype", "bf16")
    files = sorted((FOLDER / "several").glob("*.safetensors"))
    assert len(files) > 1
    found = {}
    for file in files:
        found.update(safetensors.torch.load_file(file))
        with safetensors.safe_open(file, "pt") as opened:
            assert opened.metadata() == {"format": "pt"}
    same(found, {name: tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor
                 for name, tensor in tensors.items()})
    convert("several", "back.pt")
    same(load("back.pt"), found)


def distributed_rank(rank, port, folder):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="3")
    torch.distributed.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (3,))
    state = {"model": {}, "optim": {"state": {}, "param_groups": [{"lr": 0.1}]}}
    for name, (tensor, placement) in sharded_tensors().items():
        placed = Replicate() if placement is None else Shard(placement)
        state["model"][name] = distribute_tensor(tensor, mesh, [placed])
        state["optim"]["state"][name] = {"exp_avg": distribute_tensor(tensor * 2, mesh, [placed]),
                                         "step": torch.tensor(4.0)}
    dcp.save(state, checkpoint_id=folder)
    torch.distributed.destroy_process_group()


def sharded_tensors():
    torch.manual_seed(2)
    return {"rows.weight": (torch.randn(7, 4), 0), "columns.weight": (torch.randn(3, 8), 1),
            "few.bias": (torch.randn(2), 0), "whole.bias": (torch.randn(5).to(torch.bfloat16), None)}


def distributed():
    import socket
    import torch.multiprocessing as processes
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Forked, as importing takes seconds: so before anything starts threads here.
    processes.start_processes(distributed_rank, args=(port, FOLDER / "ranks"), nprocs=3, start_method="fork")
    convert("ranks", "ranks.pt")
    tensors = sharded_tensors()
    same(load("ranks.pt"),
         {"model": {name: tensor for name, (tensor, _) in tensors.items()},
          "optimizer": {"state": {name: {"exp_avg": tensor * 2, "step": torch.tensor(4.0)}
                                  for name, (tensor, _) in tensors.items()}},
          "step": 0})

    state = training_state()
    nested = {"model": state["model"], "optim": state["optimizer"]}
    dcp.save(nested, checkpoint_id=FOLDER / "one-rank", no_dist=True)
    convert("one-rank", "one-rank.pt")
    same(load("one-rank.pt"), {**state, "step": 0})

    torch.save(state, FOLDER / "run.pt")
    convert("run.pt", "ours", "--to", "dcp")
    found = {"model": {name: torch.zeros_like(tensor) for name, tensor in state["model"].items()},
             "optim": {"state": {name: {kind: torch.zeros_like(tensor) for kind, tensor in states.items()}
                                 for name, states in state["optimizer"]["state"].items()}},
             "step": torch.tensor(0)}
    dcp.load(found, checkpoint_id=FOLDER / "ours", no_dist=True)
    same(found, {**nested, "step": torch.tensor(3)})
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
    dcp_to_torch_save(FOLDER / "ours", FOLDER / "by-python.pt")
    same(load("by-python.pt"), {**nested, "step": torch.tensor(3)})
    convert("ours", "back", "--to", "fsdp")
    convert("back", "back.pt")
    same(load("back.pt"), state)

    dcp.save(state["model"], checkpoint_id=FOLDER / "flat", no_dist=True)
    convert("flat", "flat.pt")
    same(load("flat.pt"), state["model"])


def ranks_that_read():
    """What two ranks of fsdp-train saved. Not all of it can be divided by two."""
    from reading_ranks import read_by_ranks
    (FOLDER / "text.txt").write_text("In the beginning was the word.\n" * 100)
    done = run(TRAIN, "train", *"--context 7 --width 10 --layers 2 --heads 2 --batch 1 --threads 1 --steps 3".split(),
               "--ranks", "2", "--text", FOLDER / "text.txt", "--run", FOLDER / "run")
    assert done.returncode == 0, done.stdout + done.stderr
    convert("run/step-3", "trained.pt")
    convert("run/step-3", "trained", "--to", "dcp")
    read_by_ranks(FOLDER / "trained", FOLDER / "trained.pt")


def transformers():
    try:
        import transformers as hugging_face
    except ImportError as error:
        print(error)
        sys.exit(SKIPPED)
    tokens = torch.arange(20).view(2, 10) % 50
    small = dict(vocab_size=50, pad_token_id=None, bos_token_id=0, eos_token_id=0)
    models = {
        "gpt2": hugging_face.GPT2LMHeadModel(hugging_face.GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=16,
                                                                     **small)),
        "llama": hugging_face.LlamaForCausalLM(hugging_face.LlamaConfig(
            hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=16, **small))}
    for name, model in models.items():
        model.eval()
        expected = model(tokens).logits
        model.save_pretrained(FOLDER / name, max_shard_size="20KB")
        assert (FOLDER / name / "model.safetensors.index.json").exists()
        said = convert(name, f"{name}-fsdp", "--to", "fsdp")
        assert ("transposed" in said) == (name == "gpt2"), said
        convert(f"{name}-fsdp", f"{name}-hf", "--to", "hf", "--max-shard-size", "20kB")
        model.config.save_pretrained(FOLDER / f"{name}-hf")
        again = type(model).from_pretrained(FOLDER / f"{name}-hf").eval()
        assert torch.equal(again(tokens).logits, expected), name


def gpt2_model(folder):
    """A GPT-2 of transformers in the folder, and what it computes."""
    import transformers as hugging_face
    torch.manual_seed(3)
    model = hugging_face.GPT2LMHeadModel(hugging_face.GPT2Config(
        vocab_size=50, n_embd=32, n_layer=2, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0)).eval()
    model.save_pretrained(FOLDER / folder)
    tokens = torch.arange(20).view(2, 10) % 50
    return model, tokens, model(tokens).logits


def computes(model, folder, tokens):
    """The logits of a folder without a config.json, or with one."""
    if not (FOLDER / folder / "config.json").exists():
        model.config.save_pretrained(FOLDER / folder)
    return type(model).from_pretrained(FOLDER / folder).eval()(tokens).logits


def gpt2():
    """GPT-2's matrices lie as their readers have them, whatever the way there: names and shapes say how they lie."""
    try:
        model, tokens, expected = gpt2_model("hf")
    except ImportError as error:
        print(error)
        sys.exit(SKIPPED)
    first = "transformer.h.0.attn.c_attn.weight"
    weights = safetensors.torch.load_file(FOLDER / "hf" / "model.safetensors")

    # There and back by each way, with and without the config of the source.
    (FOLDER / "bare").mkdir()
    (FOLDER / "bare" / "model.safetensors").write_bytes((FOLDER / "hf" / "model.safetensors").read_bytes())
    for source in ("hf", "bare"):
        assert "8 matrices are transposed" in convert(source, f"{source}-fsdp", "--to", "fsdp")
        for step in ("pt", "archive", "dcp"):
            said = convert(f"{source}-fsdp", f"{source}-{step}", "--to", step)
            assert "as torch.nn.Linear has them" in said and "are transposed." not in said, said
            said = convert(f"{source}-{step}", f"{source}-{step}-hf", "--to", "hf")
            assert "8 matrices are transposed" in said and "those of a GPT-2" in said, said
            assert torch.equal(computes(model, f"{source}-{step}-hf", tokens), expected), step
            said = convert(f"{source}-{step}", f"{source}-{step}-fsdp", "--to", "fsdp")
            assert "transposed" not in said, said
        said = convert(f"{source}-fsdp", f"{source}-again", "--to", "hf")
        assert "8 matrices are transposed" in said, said
        same(safetensors.torch.load_file(FOLDER / f"{source}-again" / "model.safetensors"), weights)
        assert torch.equal(computes(model, f"{source}-again", tokens), expected)

    # A state dict of transformers, with states of an optimizer, is one of this library's models as a checkpoint.
    optimizer = torch.optim.AdamW(model.named_parameters(), lr=1e-3)
    model(tokens, labels=tokens).loss.backward()
    optimizer.step()
    after = model(tokens).logits
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 1}, FOLDER / "python.pt")
    assert "transposed" in convert("python.pt", "python", "--to", "fsdp")
    convert("python", "python-back.pt")
    back = load("python-back.pt")
    state = optimizer.state[model.transformer.h[0].attn.c_attn.weight]["exp_avg"]
    assert torch.equal(back["optimizer"]["state"][first]["exp_avg"], state.t())
    assert torch.equal(back["model"][first], model.state_dict()[first].t())
    said = convert("python.pt", "python-hf", "--to", "hf")  # it lies as transformers has it
    assert "transposed" not in said, said
    assert torch.equal(computes(model, "python-hf", tokens), after)

    # As it lies where that is asked for, and where a model is no GPT-2: that is said.
    said = convert("hf", "kept", "--to", "fsdp", "--transpose", "none")
    assert "transposed" not in said, said
    convert("kept", "kept.pt")
    same(load("kept.pt"), weights)
    others = {"no-positions": {name: value for name, value in weights.items() if "wpe" not in name},
              "other-shape": {**weights, first: torch.ones(40, 32)}}
    for name, tensors in others.items():
        torch.save(tensors, FOLDER / f"{name}.pt")
        said = convert(f"{name}.pt", name, "--to", "hf")
        assert f"Matrices such as {first} stay as they are" in said, said
        same(safetensors.torch.load_file(FOLDER / name / "model.safetensors"), tensors)
    convert("hf-fsdp", "big-code", "--to", "hf", "--transpose", "none")
    (FOLDER / "big-code" / "config.json").write_text(json.dumps({"model_type": "gpt_bigcode"}))
    said = convert("big-code", "big-code-fsdp", "--to", "fsdp")
    assert "stay as they are" in said and "no GPT-2" in said, said


def trained():
    """What fsdp-train saved, converted, is what it exported."""
    (FOLDER / "text.txt").write_text("In the beginning was the word.\n" * 100)
    for family, name in (("gpt2", "gpt2-run"), ("llama", "llama-run")):
        shape = "--context 8 --width 16 --layers 1 --heads 2".split()
        model = shape if family == "gpt2" else ["--model", "llama-mini", *shape, "--key-value-heads", "1"]
        done = run(TRAIN, "train", *model, "--batch", "1", "--threads", "1", "--text", FOLDER / "text.txt", "--run",
                   FOLDER / name, "--steps", "2", "--ranks", "2", "--export")
        assert done.returncode == 0, done.stdout + done.stderr
        said = convert(f"{name}/step-2", f"{name}-hf", "--to", "hf")
        assert ("transposed" in said) == (family == "gpt2"), said
        exported = safetensors.torch.load_file(FOLDER / name / "model" / "model.safetensors")
        same(safetensors.torch.load_file(FOLDER / f"{name}-hf" / "model.safetensors"), exported)
        config = (FOLDER / f"{name}-hf" / "config.json").read_text()
        assert config == (FOLDER / name / "model" / "config.json").read_text()
        convert(f"{name}-hf", f"{name}-again", "--to", "hf", "--dtype", "bf16")
        again = json.loads((FOLDER / f"{name}-again" / "config.json").read_text())
        changed = {key for key, value in json.loads(config).items() if again[key] != value}
        assert changed <= {"torch_dtype", "dtype"} and all(again[key] == "bfloat16" for key in changed), changed
        convert(f"{name}/step-2", f"{name}-hf", "--to", "hf", "--force")
        convert(f"{name}/step-2", f"{name}.pt")
        state = load(f"{name}.pt")
        assert state["step"] == 2 and set(state["optimizer"]["state"]) == set(state["model"])


if __name__ == "__main__":
    {task.__name__: task for task in (torch_save, hostile, hugging_face, distributed, ranks_that_read, transformers,
                                     gpt2, trained)}[sys.argv[1]]()
