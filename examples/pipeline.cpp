// A model whose layers are divided among four ranks, one after the other. Eight micro-batches keep all of them at work.
#include <fsdp/fsdp.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr int64_t kWidth = 64;
constexpr int kLayers = 8, kMicroBatches = 8;

struct LayerImpl : torch::nn::Module {
  LayerImpl() : norm(torch::nn::LayerNormOptions({kWidth})), up(kWidth, 4 * kWidth), down(4 * kWidth, kWidth) {
    register_module("norm", norm), register_module("up", up), register_module("down", down);
  }
  torch::Tensor forward(const torch::Tensor& x) { return x + down(torch::gelu(up(norm(x)))); }

  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
};

torch::Tensor loss_of(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::mse_loss(output, target);
}

void train(fsdp::World& world) {
  std::vector<fsdp::PipelineBlock> blocks;
  for (int i = 0; i < kLayers; ++i) blocks.push_back(fsdp::pipeline_block<LayerImpl>("layers." + std::to_string(i)));
  torch::manual_seed(1);                   // the same first values on any number of ranks
  fsdp::Pipeline pipeline(blocks, world);  // this rank makes the layers of its own stage alone
  torch::optim::AdamW optimizer(pipeline.stage().parameters(), torch::optim::AdamWOptions(1e-3));
  for (int step = 1; step <= 40; ++step) {
    fsdp::Tensors inputs, targets;
    for (int i = 0; i < kMicroBatches; ++i) {
      inputs.push_back(torch::randn({32, kWidth}));
      targets.push_back(inputs.back().flip(1));
    }
    const double loss = pipeline.step(inputs, targets, loss_of);
    pipeline.clip_grad_norm_(1.0);  // by the norm over all stages
    optimizer.step();
    optimizer.zero_grad();
    if (step % 10 == 0 && world.rank() == 0) std::printf("step %d  loss %.4f\n", step, loss);
  }
}

}  // namespace

int main() { return fsdp::launch({.ranks = 4}, train); }
