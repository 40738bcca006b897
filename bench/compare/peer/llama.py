"""The model of apps/models/llama.h: that of Hugging Face, with tied embeddings."""

import torch
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

MLP_MULTIPLE = 32


class Llama(LlamaForCausalLM):
    @property
    def blocks(self):
        return self.model.layers

    def forward(self, tokens, targets):
        """The mean cross entropy in fp32: wrappers see no call but this one."""
        x = self.model(input_ids=tokens, use_cache=False).last_hidden_state
        logits = self.lm_head(x).float()
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def mlp_width(width):
    """8/3 of the width, rounded up, as models::ModelConfig::mlp_width_or_default."""
    return -(-8 * width // (3 * MLP_MULTIPLE)) * MLP_MULTIPLE


def make_llama(vocabulary, context, width, layers, heads):
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=mlp_width(width),
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=context,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="sdpa",
    )
    return Llama(config).to(torch.float32)
