"""Which files are made hostile, and the command that reads each. Every command succeeds with the whole files."""

import dataclasses

MODEL = "--context 8 --width 16 --layers 1 --heads 2".split()
TINY = [*MODEL, *"--batch 1 --threads 1 --timeout 30 --sample-length 2 --validation-windows 1".split()]


@dataclasses.dataclass(frozen=True)
class Target:
    file: str  # in the folder of whole files
    command: tuple  # with {} for that folder
    keeps: str = ""  # a folder that a refusal leaves as it was
    program: str = "fsdp-train"  # or another one beside it


def train(*more):
    return ("train", *TINY, *more)


GO_ON = train("--text", "{}/text.txt", "--run", "{}/run", "--steps", "3")

TARGETS = {
    "manifest": Target("run/step-2/manifest.json", GO_ON, keeps="run"),
    "manifest-sample": Target("run/step-2/manifest.json",
                              ("sample", *MODEL, "--threads", "1", "--sample-length", "2", "--checkpoint", "{}/run/step-2")),
    "shard": Target("run/step-2/shard-00001-of-00001.safetensors", GO_ON, keeps="run"),
    "metrics": Target("run/metrics.jsonl", GO_ON),
    "metrics-report": Target("run/metrics.jsonl", ("report", "{}/run", "--output", "{}/page.html")),
    "configuration": Target("run/config.toml", ("train", "--dry-run", "--config", "{}/run/config.toml")),
    "configuration-report": Target("run/config.toml", ("report", "{}/run", "--output", "{}/page.html")),
    "model-config": Target("run/model/config.json", ("train", "--dry-run", "--model", "{}/run/model/config.json")),
    "weights": Target("run/model/model.safetensors",
                      train("--text", "{}/text.txt", "--run", "{}/other", "--steps", "1", "--init-from", "{}/run/model")),
    "weights-index": Target("indexed/model.safetensors.index.json",
                            train("--text", "{}/text.txt", "--run", "{}/other", "--steps", "1", "--init-from", "{}/indexed")),
    "tokenizer-json": Target("tokenizer.json", train("--text", "{}/text.txt", "--run", "{}/other", "--steps", "1",
                                                     "--tokenizer", "{}/tokenizer.json")),
    "text": Target("text.txt", train("--text", "{}/text.txt", "--run", "{}/other", "--steps", "1")),
    "tokens": Target("tokens/train.bin", train("--data", "{}/tokens", "--run", "{}/other", "--steps", "1")),
    "tokens-llmc": Target("tokens-llmc/train.bin",
                          train("--data", "{}/tokens-llmc", "--run", "{}/other", "--steps", "1")),
}


def convert(source, more=("--to", "hf")):
    return ("{}/" + source, "{}/target", *more)


# The same run, in the formats of others.
CONVERTED = {"converted/run.pt": ("--to", "pt"), "converted/dcp": ("--to", "dcp"), "converted/archive": ("--to", "archive"),
             "converted/hf": ("--to", "hf", "--max-shard-size", "4k")}

TARGETS.update({
    "convert-torch-file": Target("converted/run.pt", convert("converted/run.pt"), program="fsdp-convert"),
    "convert-torch-file-list": Target("converted/run.pt", ("--list", "{}/converted/run.pt"), program="fsdp-convert"),
    "convert-archive": Target("converted/archive", convert("converted/archive", ("--to", "dcp")), program="fsdp-convert"),
    "convert-dcp": Target("converted/dcp/.metadata", convert("converted/dcp"), program="fsdp-convert"),
    "convert-dcp-data": Target("converted/dcp/__0_0.distcp", convert("converted/dcp"), program="fsdp-convert"),
    "convert-index": Target("converted/hf/model.safetensors.index.json", convert("converted/hf", ("--to", "pt")),
                            program="fsdp-convert"),
    "convert-manifest": Target("run/step-2/manifest.json", convert("run/step-2"), keeps="run", program="fsdp-convert"),
    # To a format that keeps the optimizer's state: all of the file is read.
    "convert-shard": Target("run/step-2/shard-00001-of-00001.safetensors", convert("run/step-2", ("--to", "dcp")), keeps="run",
                            program="fsdp-convert"),
})

# Where a Python has the package tokenizers.
HUGGING_FACE_TARGETS = {
    "tokenizer-hugging-face": Target("hugging_face/tokenizer.json",
                                     train("--text", "{}/text.txt", "--run", "{}/other", "--steps", "1", "--tokenizer",
                                           "{}/hugging_face/tokenizer.json")),
}


def hugging_face_tokenizer():
    """A tokenizer.json of GPT-2's kind, with a merge and a token that ends a text."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    characters = [chr(byte) for byte in shown] + [chr(256 + other) for other in range(256 - len(shown))]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    end = {"id": 257, "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": False, "special": True}
    vocabulary = {token: number for number, token in enumerate([*characters, "th", "<|endoftext|>"])}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
            "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": ["t h"]}}


# Where the program was built with sentencepiece.
SENTENCEPIECE_TARGETS = {
    "tokenizer-model": Target("spm/tokenizer.model", train("--text", "{}/text.txt", "--run", "{}/other", "--steps", "1",
                                                           "--tokenizer", "{}/spm/tokenizer.model")),
}
