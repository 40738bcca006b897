"""Writes a model's weights as other trainers read them.

FOLDER gets `config.json` and `model.safetensors` in Hugging Face's form of GPT-2, whose linear layers are transposed,
and `llm_c.bin` in llm.c's (version 3: 256 integers, then the parameters in fp32, each of all layers).
"""

import argparse
import json
import pathlib

import numpy
from safetensors.torch import load_file, save_file

from compare.peer.arguments import add_shape

LINEAR = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
LLM_C_MAGIC, LLM_C_VERSION, LLM_C_HEADER = 20240326, 3, 256
LLM_C_PADDING = 128  # its vocabularies are multiples
# In llm.c's order, between the embeddings and the last norm.
OF_A_LAYER = ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")


def write_hugging_face(arguments, weights):
    config = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": arguments.vocabulary,
        "n_positions": arguments.context,
        "n_embd": arguments.width,
        "n_layer": arguments.layers,
        "n_head": arguments.heads,
        "activation_function": "gelu_new",
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "resid_pdrop": 0.0,
    }
    (arguments.output / "config.json").write_text(json.dumps(config))
    transposed = {
        name: weight.t().contiguous() if name.endswith(LINEAR) else weight for name, weight in weights.items()
    }
    save_file(transposed, arguments.output / "model.safetensors", metadata={"format": "pt"})


def names_of_llm_c(layers):
    """Of each of its tensors, the parameters that it consists of."""
    yield ["transformer.wte.weight"]
    yield ["transformer.wpe.weight"]
    for part in OF_A_LAYER:
        for kind in ("weight", "bias"):
            yield [f"transformer.h.{layer}.{part}.{kind}" for layer in range(layers)]
    yield ["transformer.ln_f.weight"]
    yield ["transformer.ln_f.bias"]


def write_llm_c(arguments, weights):
    padded = -(-arguments.vocabulary // LLM_C_PADDING) * LLM_C_PADDING
    header = numpy.zeros(LLM_C_HEADER, dtype=numpy.int32)
    shape = (arguments.context, arguments.vocabulary, arguments.layers, arguments.heads, arguments.width, padded)
    header[:8] = (LLM_C_MAGIC, LLM_C_VERSION, *shape)
    with open(arguments.output / "llm_c.bin", "wb") as file:
        file.write(header.tobytes())
        for names in names_of_llm_c(arguments.layers):
            for name in names:
                file.write(weights[name].numpy().tobytes())
            if names == ["transformer.wte.weight"]:
                file.write(bytes(4 * (padded - arguments.vocabulary) * arguments.width))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_shape(parser)
    parser.add_argument("--weights", required=True, help="a safetensors file")
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="FOLDER")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    weights = load_file(arguments.weights)
    write_hugging_face(arguments, weights)
    write_llm_c(arguments, weights)


if __name__ == "__main__":
    main()
