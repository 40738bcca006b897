// Two ranks train a transformer of six blocks for a few steps. Then the first rank prints what a step comes to, and
// each writes when it did what in the last two steps, for https://ui.perfetto.dev.
#include <fsdp/fsdp.h>

#include <cstdio>
#include <string>

namespace {

namespace nn = torch::nn;

constexpr int64_t kTokens = 1000, kWidth = 256, kBlocks = 6, kLength = 64, kBatch = 8, kSteps = 12;

struct TransformerImpl : nn::Module {
  TransformerImpl() {
    register_module("embedding", embedding);
    register_module("encoder", encoder);
    register_module("head", head);
  }
  // [kLength, kBatch] of int64 to [kLength, kBatch, kTokens]
  torch::Tensor forward(const torch::Tensor& tokens) { return head(encoder(embedding(tokens))); }

  nn::Embedding embedding{kTokens, kWidth};
  nn::TransformerEncoder encoder{
      nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(kWidth, 4).dim_feedforward(4 * kWidth)), kBlocks};
  nn::Linear head{kWidth, kTokens};
};
TORCH_MODULE(Transformer);

void train(fsdp::World& world, const std::string& file) {
  torch::set_num_threads(1);
  torch::manual_seed(world.rank());
  Transformer model;
  model->to(world.device());
  auto sharded = fsdp::shard(*model, world, {.units = fsdp::units_of<nn::TransformerEncoderLayerImpl>()});
  fsdp::AdamW optimizer(sharded);
  auto train_steps = [&](int64_t steps) {
    for (int64_t step = 0; step < steps; ++step) {
      auto tokens = torch::randint(kTokens, {kLength, kBatch}, torch::kInt64).to(world.device());
      nn::functional::cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  };
  train_steps(kSteps - 1);
  auto trace = sharded.trace();
  train_steps(1);
  const std::string written = trace.write(file);
  if (world.rank() == 0) std::printf("%s\nsaved %s\n", sharded.schedule().c_str(), written.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string file = argc > 1 ? argv[1] : "trace.json", backend = argc > 2 ? argv[2] : "auto";
  return fsdp::launch({.ranks = 2, .backend = backend}, [&](fsdp::World& world) { train(world, file); });
}
