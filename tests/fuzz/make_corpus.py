#!/usr/bin/env python3
"""Writes the whole files that fuzzing begins with, a few hundred bytes each, to tests/fuzz/corpus/TARGET/.

Run from anywhere: tests/fuzz/make_corpus.py. It changes nothing where all are there as they are.
"""

import io
import json
import pathlib
import pickle
import struct
import sys
import types
import zipfile

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"


def named(module, name):
    """A class that pickles as module.name, wherever that is."""
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        sys.modules.setdefault(".".join(parts[:end]), types.ModuleType(".".join(parts[:end])))
    made = type(name, (), {"__module__": module})
    setattr(sys.modules[module], name, made)
    return made


def made(cls, state=None):
    """An object of a class, with these attributes."""
    value = cls.__new__(cls)
    value.__dict__.update(state or {})
    return value


class Called:
    """Pickles as a call of a function."""

    def __init__(self, function, arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


REBUILD = named("torch._utils", "_rebuild_tensor_v2")
PARAMETER = named("torch._utils", "_rebuild_parameter")
FLOATS = named("torch", "FloatStorage")
SIZE = named("torch", "Size")
FLOAT32 = named("torch", "float32")


class Storage(tuple):
    pass


class TorchPickler(pickle.Pickler):
    def persistent_id(self, value):
        return tuple(value) if isinstance(value, Storage) else None


def tensor(key, shape, strides, offset=0, numel=6):
    return Called(REBUILD, (Storage(("storage", FLOATS, key, "cpu", numel)), offset, shape, strides, False, {}))


def torch_zip(state, entries=("data/0",), more=()):
    packed = io.BytesIO()
    TorchPickler(packed, 2).dump(state)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        def add(name, data):
            archive.writestr(zipfile.ZipInfo(f"x/{name}"), data)
        add("data.pkl", packed.getvalue())
        add("byteorder", b"little")
        for entry in entries:
            add(entry, struct.pack("<6f", *range(6)))
        for name, data in more:
            add(name, data)
        add("version", b"3\n")
    return out.getvalue()


def torch_files():
    whole = tensor("0", (2, 3), (3, 1))
    yield "flat", torch_zip({"w": whole, "tied": whole, "row": tensor("0", (3,), (1,), 3)})
    yield "nested", torch_zip({"model": {"w": Called(PARAMETER, (whole, True, {}))}, "step": 5, "lr": 1e-3,
                               "optimizer": {"state": {"w": {"exp_avg": tensor("1", (2, 3), (1, 2))}}, "list": [1, "a"]}},
                              ("data/0", "data/1"))
    module = named("__torch__", "Module")
    yield "archive", torch_zip(made(module, {"weight": whole, "training": True}),
                               more=[("constants.pkl", b"\x80\x02)."), ("code/x.py", b"def f(): pass\n")])


def dcp_metadata():
    metadata = "torch.distributed.checkpoint.metadata"
    names = {name: named(metadata, name) for name in ("Metadata", "TensorStorageMetadata", "BytesStorageMetadata",
                                                      "ChunkStorageMetadata", "MetadataIndex", "TensorProperties")}
    info = named("torch.distributed.checkpoint.filesystem", "_StorageInfo")
    layout = named("torch.serialization", "_get_layout")
    encoding = named(metadata, "_MEM_FORMAT_ENCODING")

    def size(*numbers):
        return Called(SIZE, (numbers,))

    names["TensorProperties"].__getstate__ = lambda self: (FLOAT32, Called(layout, ("torch.strided",)), False,
                                                           Called(encoding, (0,)), False)

    def chunk(*place):
        return made(names["ChunkStorageMetadata"], {"offsets": size(*place[:2]), "sizes": size(*place[2:])})

    def whole(protocol):
        root = made(names["Metadata"], {
            "state_dict_metadata": {
                "model.w": made(names["TensorStorageMetadata"], {"properties": made(names["TensorProperties"]), "size": size(4, 3),
                                                                 "chunks": [chunk(0, 0, 2, 3), chunk(2, 0, 2, 3)]}),
                "lr": made(names["BytesStorageMetadata"])},
            "planner_data": {"model.w": ("model", "w"), "lr": ("lr",)},
            "storage_data": {
                made(names["MetadataIndex"], {"fqn": "model.w", "offset": size(row, 0), "index": row // 2}):
                made(info, {"relative_path": f"__{row}_0.distcp", "offset": 0, "length": 900}) for row in (0, 2)},
            "storage_meta": None, "version": "1.0.0"})
        return pickle.dumps(root, protocol)

    yield "protocol-2", whole(2)
    yield "protocol-4", whole(4)


def with_header(header, data):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def safetensors():
    yield "two", with_header({"__metadata__": {"format": "pt"},
                              "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
                              "b": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]}}, bytes(26))
    yield "empty", with_header({"a": {"dtype": "I64", "shape": [0, 5], "data_offsets": [0, 0]}}, b"")


def manifest():
    value = {"hash": "0" * 32, "format": "fsdp-checkpoint", "version": 4, "world_size": 4, "shards": 3, "step": 7,
             "notes": {"a": "text"},
             "files": [{"name": f"shard-0000{i}-of-00003.safetensors", "bytes": 100, "hash": "0" * 32} for i in (1, 3)],
             "parameters": [{"name": "w", "shape": [3, 4], "strides": [4, 1],
                             "tensors": {"model": "F32", "optimizer.exp_avg": "I8", "optimizer.exp_avg_scale": "F32"},
                             "scalars": {"optimizer.step": 7.0},
                             "parts": [{"file": 0, "offset": 0, "begin": 0, "numel": 8},
                                       {"file": 1, "offset": 0, "begin": 8, "numel": 4}]}],
             "buffers": [{"name": "mean", "shape": [4], "dtype": "F32", "file": 0}]}
    yield "two-files", (json.dumps(value, indent=2) + "\n").encode()
    value["parameters"][0]["parts"] = [{"file": 0, "offset": 0, "begin": 0, "numel": 5, "box": [[0, 3], [0, 2]]},
                                       {"file": 1, "offset": 6, "begin": 5, "numel": 1, "box": [[0, 3], [0, 2]]},
                                       {"file": 1, "offset": 0, "begin": 0, "numel": 6, "box": [[0, 3], [2, 2]]}]
    yield "boxes", (json.dumps(value, indent=2) + "\n").encode()
    value["shards"] = value["world_size"] = 2
    value["files"] = [{**one, "name": f"shard-0000{i}-of-00002.safetensors"} for i, one in enumerate(value["files"], 1)]
    for parameter in value["parameters"]:
        del parameter["parts"]
        parameter["pieces"] = [[0, 8], [1, 4]]
    del value["buffers"][0]["file"]
    yield "two-shards", (json.dumps({**value, "version": 3}, indent=2) + "\n").encode()
    for parameter in value["parameters"]:
        del parameter["tensors"], parameter["scalars"], parameter["pieces"]
    yield "version-2", (json.dumps({**value, "version": 2}, indent=2) + "\n").encode()


def index():
    yield "two", json.dumps({"metadata": {"total_size": 16},
                             "weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}).encode()


def model_config():
    yield "gpt2", json.dumps({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50, "n_embd": 32,
                              "n_positions": 16, "n_layer": 2, "n_head": 2, "n_inner": None,
                              "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}).encode()
    yield "llama", json.dumps({"model_type": "llama", "vocab_size": 50, "hidden_size": 32, "intermediate_size": 48,
                               "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                               "rms_norm_eps": 1e-5, "hidden_act": "silu", "max_position_embeddings": 16,
                               "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
                               "tie_word_embeddings": False}).encode()


def toml():
    yield "run", (b'paths_relative_to = "file"\n[data]\ntext = "a.txt"\n[model]\ncontext = 64\n[training]\nlr = 3e-4\n'
                  b"steps = 1_000\n[ranks]\nranks = 2\n")
    yield "model", b'family = "llama"\nvocabulary = 300\nwidth = 64\nlayers = 2\nheads = 2\ntied_embeddings = true\n'


def tokens():
    yield "nanogpt", struct.pack("<5H", *range(5))
    yield "llmc-gpt2", struct.pack("<256i5H", 20240520, 1, 5, *[0] * 253, *range(5))
    yield "llmc-llama3", struct.pack("<256i2I", 20240801, 7, 2, *[0] * 253, 1, 2)


def field(number, kind, data):
    return bytes([number << 3 | kind]) + data


def text_field(number, data):
    return field(number, 2, bytes([len(data)]) + data)


def tokenizer():
    yield "bytes", b'{"tokenizer": "bytes"}\n'
    pieces = [text_field(1, text_field(1, text) + field(2, 5, struct.pack("<f", -1.5)) + field(3, 0, bytes([kind])))
              for text, kind in ((b"<unk>", 2), (b"</s>", 3), ("\u2581a".encode(), 1), (b"b", 1))]
    trainer = text_field(2, field(3, 0, b"\x01") + field(4, 0, b"\x04"))
    normaliser = text_field(3, text_field(1, b"identity") + field(3, 0, b"\x01"))
    yield "sentencepiece", b"".join(pieces) + trainer + normaliser


def plan_arguments():
    lines = ("gpt2-tiny --ranks 8 --param-dtype bf16 --batch 4 --micro-batches 3 --json",
             "llama-tiny --ranks=6 --hosts=2 --strategy all --reduce-dtype fp16 --activation-checkpoint selective",
             "gpt2-tiny --ranks 8 --tensor-parallel 2 --pipeline-parallel 2 --micro-batches 4 --sequence-parallel",
             "llama-tiny --hardware a100-40 --engine fsdp2 --memory 1e3GiB --loss-dtype same --sequence 64",
             "gpt2-tiny --engine megatron --ranks 8 --pipeline-schedule interleaved --stages-per-rank 2 --stages auto",
             "gpt2-tiny --width 64 --heads 4 --layers 3 --vocabulary 99 --mlp-width 5 --tie-embeddings false --lora 2",
             "gpt2-tiny --strategy hybrid-shard --shard-group-size 2 --ranks 4 --offload all --cpu-offload --freeze *.bias",
             "gpt2-tiny --optimizer muon --optimizer-state 8bit --prefetch 0 --buffers 3 --activation-memory 1MB")
    for number, line in enumerate(lines):
        yield str(number), line.replace(" ", "\n").encode()


def plan_list():
    yield "text", (b"# names\nembed.weight [10, 4] torch.bfloat16\nh.0.w torch.Size([4, 4])\nh.1.w (4, 4) F32\nscale []\n"
                   b"head.weight = embed.weight\nm 4x3 fp16 buffer\nempty [0, 5] double\n")
    yield "header", json.dumps({"__metadata__": {"format": "pt"},
                                "a.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
                                "b": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]},
                                "n": {"dtype": "I64", "shape": [1], "data_offsets": [26, 34]}}).encode()


def hardware():
    folder = pathlib.Path(__file__).resolve().parents[2] / "apps/planning/hardware"
    text = (folder / "h100.toml").read_text()
    lines = [line.split("#")[0].rstrip() for line in text.split("[[all_reduce]]")[0].split("\n")]
    measured = "\n[[all_reduce]]\nranks = 2\nbytes = [1e3, 1e6]\nseconds = [1e-5, 1e-4]\n"
    yield "h100", ("\n".join(line for line in lines if line) + measured).encode()


def main():
    made = {"torch_file": torch_files, "dcp_metadata": dcp_metadata, "safetensors": safetensors, "manifest": manifest,
            "index": index, "model_config": model_config, "toml": toml, "tokens": tokens, "tokenizer": tokenizer,
            "plan_arguments": plan_arguments, "plan_config": model_config, "plan_toml": lambda: [list(toml())[1]],
            "plan_list": plan_list, "hardware": hardware}
    for target, files in made.items():
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
