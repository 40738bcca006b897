// A step of a GPT whose layers are divided among the ranks, and fused AdamW on a rank's parts. The peer is
// compare/peer/tensor_parallel.py. Embeddings, norms and the head are whole on every rank. The rows of the fused QKV
// are in the order of the heads: query, key and value of head 0, then those of head 1. So each rank has whole heads.
#include <fsdp/fsdp.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "share_optimizer.h"
#include "training.h"

namespace {

namespace nn = torch::nn;
using contestant::Json;
using fsdp::World;

struct Arguments {
  contestant::Training training;
  std::string backend = "auto";
};

struct AttentionImpl : nn::Module {
  AttentionImpl(const models::ModelConfig& config, const World& axis)
      : head_width(config.width / config.heads),
        c_attn(register_module("c_attn",
                               fsdp::ColumnParallelLinear(nn::LinearOptions(config.width, 3 * config.width), axis))),
        c_proj(
            register_module("c_proj", fsdp::RowParallelLinear(nn::LinearOptions(config.width, config.width), axis))) {}
  // x [batch, length, width], as the result.
  torch::Tensor forward(const torch::Tensor& x) {
    const int64_t batch = x.size(0), length = x.size(1);
    // [batch, length, heads of this rank, 3, head_width] -> three times [batch, heads, length, head_width]
    const auto parts = c_attn(x).view({batch, length, -1, 3, head_width}).permute({3, 0, 2, 1, 4}).unbind(0);
    const auto mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
    return c_proj(mixed.transpose(1, 2).reshape({batch, length, -1}));
  }

  int64_t head_width;
  fsdp::ColumnParallelLinear c_attn;
  fsdp::RowParallelLinear c_proj;
};
TORCH_MODULE(Attention);

struct MlpImpl : nn::Module {
  MlpImpl(const models::ModelConfig& config, const World& axis)
      : c_fc(register_module("c_fc",
                             fsdp::ColumnParallelLinear(nn::LinearOptions(config.width, 4 * config.width), axis))),
        c_proj(register_module("c_proj",
                               fsdp::RowParallelLinear(nn::LinearOptions(4 * config.width, config.width), axis))) {}
  torch::Tensor forward(const torch::Tensor& x) { return c_proj(torch::gelu(c_fc(x), "tanh")); }

  fsdp::ColumnParallelLinear c_fc;
  fsdp::RowParallelLinear c_proj;
};
TORCH_MODULE(Mlp);

struct BlockImpl : nn::Module {
  BlockImpl(const models::ModelConfig& config, const World& axis)
      : ln_1(register_module("ln_1", nn::LayerNorm(nn::LayerNormOptions({config.width})))),
        attn(register_module("attn", Attention(config, axis))),
        ln_2(register_module("ln_2", nn::LayerNorm(nn::LayerNormOptions({config.width})))),
        mlp(register_module("mlp", Mlp(config, axis))) {}
  torch::Tensor forward(torch::Tensor x) {
    x = x + attn(ln_1(x));
    return x + mlp(ln_2(x));
  }

  nn::LayerNorm ln_1;
  Attention attn;
  nn::LayerNorm ln_2;
  Mlp mlp;
};

// With the names of the file of weights, after "transformer.". The head is the token embedding.
struct GptImpl : nn::Module {
  GptImpl(const models::ModelConfig& config, const World& axis)
      : wte(register_module("wte", nn::Embedding(config.vocabulary, config.width))),
        wpe(register_module("wpe", nn::Embedding(config.context, config.width))),
        h(register_module("h", nn::ModuleList())),
        ln_f(register_module("ln_f", nn::LayerNorm(nn::LayerNormOptions({config.width})))) {
    for (int64_t i = 0; i < config.layers; ++i) h->push_back(std::make_shared<BlockImpl>(config, axis));
  }
  torch::Tensor loss(const torch::Tensor& tokens, const torch::Tensor& targets) {
    torch::Tensor x = wte(tokens) + wpe(torch::arange(tokens.size(1), tokens.options()));
    for (const auto& block : *h) x = block->as<BlockImpl>()->forward(std::move(x));
    const torch::Tensor logits = torch::linear(ln_f(x), wte->weight);
    return nn::functional::cross_entropy(logits.flatten(0, 1), targets.flatten());
  }

  nn::Embedding wte, wpe;
  nn::ModuleList h;
  nn::LayerNorm ln_f;
};

// The part of `whole` that a rank holds.
torch::Tensor part_of(const torch::Tensor& whole, const fsdp::ParameterDivision& division) {
  std::vector<torch::Tensor> parts;
  for (const auto& [begin, end] : division.ranges) parts.push_back(whole.slice(division.dim, begin, end));
  return torch::cat(parts, division.dim);
}

// Divisions by the whole names of parameters.
std::map<std::string, fsdp::ParameterDivision> divisions_of(nn::Module& model) {
  std::map<std::string, fsdp::ParameterDivision> found;
  for (const auto& module : model.named_modules()) {
    const auto* divided = dynamic_cast<const fsdp::DividedModule*>(module.value().get());
    if (divided == nullptr) continue;
    for (const auto& division : divided->divisions()) found[module.key() + "." + division.parameter] = division;
  }
  return found;
}

void load(GptImpl& model, const std::string& file) {
  const auto weights = fsdp::checkpoint::read_safetensors(file);
  const auto divisions = divisions_of(model);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model.named_parameters()) {
    const torch::Tensor whole = weights.at("transformer." + parameter.key());
    const auto division = divisions.find(parameter.key());
    parameter.value().copy_(division == divisions.end() ? whole : part_of(whole, division->second));
  }
}

class DividedTraining {
 public:
  // All ranks have the same batch.
  DividedTraining(const World& world, const contestant::Training& training)
      : batch_(contestant::make_batch(training, 0)), model_(std::make_shared<GptImpl>(training.model, world)) {
    load(*model_, training.weights);
    optimizer_.emplace(model_->parameters(), /*ranks=*/1, training.lr);
  }

  double step() {
    const torch::Tensor loss = model_->loss(batch_.tokens, batch_.targets);
    loss.backward();
    optimizer_->step();
    return loss.item<double>();
  }

 private:
  contestant::Batch batch_;
  std::shared_ptr<GptImpl> model_;
  std::optional<contestant::ShareOptimizer> optimizer_;
};

void train(const World& world, const Arguments& arguments, contestant::Conversation& conversation) {
  std::optional<DividedTraining> training;
  conversation.answer({
      {"build",
       [&](const Json&) {
         training.emplace(world, arguments.training);
         return Json::object();
       }},
      {"steps",
       [&](const Json& command) {
         return contestant::take_steps(command.at("count"), [&] { return training->step(); });
       }},
  });
}

}  // namespace

int main(int count, char** words) {
  Arguments arguments;
  CLI::App app("A step of divided layers, told over standard input what to do; see bench/README.md.");
  contestant::add_options(app, arguments.training);
  app.add_option("--backend", arguments.backend, "of the sums");
  CLI11_PARSE(app, count, words);

  contestant::Conversation conversation;
  return fsdp::launch({.backend = arguments.backend}, [&](World& world) { train(world, arguments, conversation); });
}
