"""Tiny Hugging Face models for hugging_face_test.cpp, and a reader for what that test saves.

    make_models.py make FOLDER     a folder a model: config.json, its weights, and expected.safetensors with tokens and
                                   targets, and the logits, loss and gradients that transformers computes, in fp32
    make_models.py check FOLDER    reads each FOLDER/<model>/saved and compares its logits with the expected ones

Exits with 77 where a package is missing.
"""

import json
import pathlib
import sys

SKIPPED = 77
try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(SKIPPED)

VOCABULARY, CONTEXT, BATCH, LENGTH = 61, 48, 2, 40
TOLERANCE = 1e-5  # of sums in fp32 in another order, relative and absolute; logits are of order 1
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,  # wavelengths of 6 to 20,000 tokens lie on all sides of it
}


def gpt2(**more):
    shape = dict(vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=32, n_layer=2, n_head=4)
    dropout = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(**shape, **dropout, **more, attn_implementation="eager")
    )


def llama(**more):
    shape = dict(
        vocab_size=VOCABULARY,
        max_position_embeddings=CONTEXT,
        hidden_size=32,
        intermediate_size=56,
        num_hidden_layers=2,
        num_attention_heads=4,
    )
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**shape, **more}, attn_implementation="eager"))


@torch.no_grad()
def randomise(model):
    """Weights so large that every part of the model shows in the logits, in biases and norms too."""
    torch.manual_seed(7)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            parameter.normal_(0, 0.2)
        else:
            parameter.add_(torch.randn_like(parameter) * 0.2)


def read(kind, folder):
    """The model of the folder, in fp32, and what was missing and left over in its files."""
    return kind.from_pretrained(
        folder, attn_implementation="eager", output_loading_info=True, dtype=torch.float32
    )


def save(model, folder):
    model.save_pretrained(folder)


def save_in_shards(model, folder):
    model.save_pretrained(folder, max_shard_size="20KB")
    assert (folder / "model.safetensors.index.json").exists()


def save_in_bf16(model, folder, **more):
    """Returns a model with the values that bf16 holds: the rotary embedding of this one stays rounded, too."""
    model.to(torch.bfloat16).save_pretrained(folder, **more)
    return read(type(model), folder)[0]


def save_in_bf16_shards(model, folder):
    return save_in_bf16(model, folder, max_shard_size="10KB")


def save_body(model, folder):
    """Names without the prefix of the body, with what old files hold beside the parameters."""
    save(model, folder)
    prefix = model.base_model_prefix + "."
    tensors = {name.removeprefix(prefix): tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    if prefix == "transformer.":
        tensors["h.0.attn.bias"] = torch.ones(1, 1, CONTEXT, CONTEXT).tril()
        tensors["h.0.attn.masked_bias"] = torch.tensor(-1e4)
    else:
        tensors["layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def save_with_head(model, folder):
    """A copy of the embedding as the head, which is tied to it."""
    save(model, folder)
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"] = model.lm_head.weight.detach().clone()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def with_older_rope(type_key):
    """rope_theta and rope_scaling, as before transformers 5."""

    def save_older(model, folder):
        save(model, folder)
        file = folder / "config.json"
        config = json.loads(file.read_text())
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta")
        kind = rope.pop("rope_type")
        config["rope_scaling"] = None if kind == "default" else {type_key: kind, **rope}
        file.write_text(json.dumps(config))

    return save_older


def models():
    yield "gpt2", gpt2(), save
    yield "gpt2-untied-narrow-mlp", gpt2(tie_word_embeddings=False, n_inner=48, layer_norm_epsilon=1e-3), save
    yield "gpt2-body", gpt2(), save_body
    yield "gpt2-sharded", gpt2(), save_in_shards
    yield "gpt2-with-head", gpt2(), save_with_head
    yield "llama", llama(), save
    yield "llama-tied-grouped", llama(tie_word_embeddings=True, num_key_value_heads=2), save
    yield "llama-one-key", llama(num_key_value_heads=1, head_dim=16, rms_norm_eps=1e-3), save
    yield "llama-biases", llama(attention_bias=True, mlp_bias=True, num_key_value_heads=2), save
    yield "llama-long", llama(head_dim=16, rope_parameters=dict(LLAMA3_ROPE)), save
    yield "llama-long-older", llama(head_dim=16, rope_parameters=dict(LLAMA3_ROPE)), with_older_rope("rope_type")
    yield "llama-long-oldest", llama(head_dim=16, rope_parameters=dict(LLAMA3_ROPE)), with_older_rope("type")
    theta = {"rope_type": "default", "rope_theta": 500.0}
    yield "llama-theta", llama(rope_parameters=dict(theta)), save
    yield "llama-theta-older", llama(rope_parameters=dict(theta)), with_older_rope("type")
    yield "llama-sharded-bf16", llama(num_key_value_heads=2), save_in_bf16_shards
    yield "llama-bf16", llama(tie_word_embeddings=True), save_in_bf16
    yield "llama-body", llama(tie_word_embeddings=True), save_body


def expect(model, folder):
    model.train()
    torch.manual_seed(8)
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))
    tokens, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    logits = model(input_ids=tokens).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    found = {"tokens": tokens, "targets": targets, "logits": logits.detach(), "loss": loss.detach()}
    for name, parameter in model.named_parameters():  # a tied one has one name
        found["gradient." + name] = parameter.grad
    save_file({name: tensor.contiguous() for name, tensor in found.items()}, folder / "expected.safetensors")


def make(root):
    for name, model, save_model in models():
        folder = root / name
        folder.mkdir()
        randomise(model)
        expect(save_model(model, folder) or model, folder)
    (root / "made").touch()


def check(root):
    different = []
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        expected = load_file(folder / "expected.safetensors")
        model, report = read(transformers.AutoModelForCausalLM, folder / "saved")
        with torch.no_grad():
            logits = model(input_ids=expected["tokens"]).logits
        if not torch.allclose(logits, expected["logits"], rtol=TOLERANCE, atol=TOLERANCE):
            different.append(f"{folder.name}: logits differ by {(logits - expected['logits']).abs().max():.1e}")
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            if report[kind]:
                different.append(f"{folder.name}: {kind}: {sorted(report[kind])}")
    print("\n".join(different))
    return 1 if different else 0


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[2])
    sys.exit(make(root) if sys.argv[1] == "make" else check(root))
