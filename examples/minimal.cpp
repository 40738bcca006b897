// Two ranks on this machine train a small transformer to count: after token t comes (t + 1) % 10. The model is
// torch::nn's own; its memory is shared out between the ranks.
#include <fsdp/fsdp.h>

#include <cstdio>
#include <string>

namespace {

namespace nn = torch::nn;

constexpr int64_t kTokens = 10, kWidth = 32, kLength = 16, kBatch = 8, kSteps = 40;

// Tokens [kLength, kBatch]; each sequence counts from a random start.
torch::Tensor next_batch() {
  auto starts = torch::randint(kTokens, {1, kBatch}, torch::kInt64);
  return (torch::arange(kLength).unsqueeze(1) + starts) % kTokens;
}

void train(fsdp::World& world, const std::string& run) {
  torch::manual_seed(world.rank());  // other data on each rank; the first weights are rank 0's everywhere
  auto layer = nn::TransformerEncoderLayerOptions(kWidth, 4).dim_feedforward(4 * kWidth).dropout(0.0);
  nn::Sequential model(nn::Embedding(kTokens, kWidth), nn::TransformerEncoder(nn::TransformerEncoderLayer(layer), 2),
                       nn::Linear(kWidth, kTokens));
  model->to(world.device());

  auto sharded = fsdp::shard(*model, world, {.units = fsdp::units_of<nn::TransformerEncoderLayerImpl>()});
  fsdp::AdamW optimizer(sharded, {.lr = 3e-3});
  for (int64_t step = 1; step <= kSteps; ++step) {
    auto tokens = next_batch().to(world.device());
    auto logits = model->forward(tokens);  // the module itself, called as ever
    auto loss = nn::functional::cross_entropy(logits.flatten(0, 1), ((tokens + 1) % kTokens).flatten());
    loss.backward();
    sharded.clip_grad_norm_(1.0);
    optimizer.step();
    optimizer.zero_grad();
    if (world.rank() == 0 && (step == 1 || step % 10 == 0)) {
      std::printf("step %2d  loss %.4f\n", static_cast<int>(step), loss.item<double>());
      std::fflush(stdout);
    }
  }
  const std::string checkpoint = run + "/step-" + std::to_string(kSteps);
  fsdp::save_checkpoint(checkpoint, {.model = &sharded, .optimizer = &optimizer, .step = kSteps});
  if (world.rank() == 0) std::printf("saved %s\n", checkpoint.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string run = argc > 1 ? argv[1] : "minimal-run";
  return fsdp::launch({.ranks = 2}, [&](fsdp::World& world) { train(world, run); });
}
