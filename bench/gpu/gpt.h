// A GPT of the usual shape for the comparison on a GPU; peer.py has the same one in Python.
#pragma once

#include <fsdp/fsdp.h>
#include <torch/torch.h>

namespace gpu {

struct GptSizes {
  int64_t layers = 12, width = 768, heads = 12, context = 1024, vocabulary = 50304;
};

class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(int64_t width, int64_t heads)
      : heads_(heads),
        norm1_(register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        norm2_(register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        qkv_(register_module("qkv", torch::nn::Linear(width, 3 * width))),
        out_(register_module("out", torch::nn::Linear(width, width))),
        up_(register_module("up", torch::nn::Linear(width, 4 * width))),
        down_(register_module("down", torch::nn::Linear(4 * width, width))) {}

  torch::Tensor forward(const torch::Tensor& input) {
    const int64_t batch = input.size(0), length = input.size(1), width = input.size(2);
    const torch::Tensor qkv =
        qkv_(norm1_(input)).view({batch, length, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4});
    const torch::Tensor attended = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0.0, true);
    const torch::Tensor x = input + out_(attended.transpose(1, 2).reshape({batch, length, width}));
    return x + down_(at::gelu(up_(norm2_(x)), "tanh"));
  }

 private:
  int64_t heads_;
  torch::nn::LayerNorm norm1_, norm2_;
  torch::nn::Linear qkv_, out_, up_, down_;
};
TORCH_MODULE(Block);

class GptImpl : public torch::nn::Module {
 public:
  explicit GptImpl(const GptSizes& sizes)
      : tokens_(register_module("tokens", torch::nn::Embedding(sizes.vocabulary, sizes.width))),
        places_(register_module("places", torch::nn::Embedding(sizes.context, sizes.width))),
        blocks_(register_module("blocks", torch::nn::ModuleList())),
        norm_(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({sizes.width})))) {
    for (int64_t i = 0; i < sizes.layers; ++i) blocks_->push_back(Block(sizes.width, sizes.heads));
    const torch::NoGradGuard no_grad;
    tokens_->weight.mul_(0.02);
  }

  // If true, blocks run again in the backward.
  void set_recomputed(bool recomputed) { recomputed_ = recomputed; }

  torch::Tensor loss(const torch::Tensor& tokens, const torch::Tensor& targets) {
    torch::Tensor x = tokens_(tokens) + places_(torch::arange(tokens.size(1), tokens.options()));
    for (const auto& block : *blocks_) {
      auto* one = block->as<BlockImpl>();
      const auto run = [one](const torch::Tensor& input) { return one->forward(input); };
      x = recomputed_ ? fsdp::activation_checkpoint(run, x) : run(x);
    }
    const torch::Tensor logits = at::linear(norm_(x), tokens_->weight);
    return torch::nn::functional::cross_entropy(logits.flatten(0, 1), targets.flatten());
  }

 private:
  torch::nn::Embedding tokens_, places_;
  torch::nn::ModuleList blocks_;
  torch::nn::LayerNorm norm_;
  bool recomputed_ = false;
};
TORCH_MODULE(Gpt);

}  // namespace gpu
