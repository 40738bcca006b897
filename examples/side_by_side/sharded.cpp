// The counterpart of sharded.py: parameters, gradients and the optimizer's state are divided between the ranks.
#include <fsdp/fsdp.h>

#include <cstdio>

namespace nn = torch::nn;

torch::Tensor batch_of(int64_t step, int rank) {
  torch::manual_seed(1000 * step + rank);
  return torch::rand({16, 8, 32});
}

void train(fsdp::World& world) {
  int rank = world.rank();
  torch::manual_seed(0);
  auto layer = nn::TransformerEncoderLayerOptions(32, 4).dim_feedforward(128).dropout(0.0);
  nn::TransformerEncoder model(nn::TransformerEncoderLayer(layer), 4);
  fsdp::Options options;
  options.mixed_precision.param_dtype = torch::kBFloat16;
  options.units = fsdp::units_of<nn::TransformerEncoderLayerImpl>();
  auto sharded = fsdp::shard(*model, world, options);
  fsdp::AdamW optimizer(sharded, {.lr = 1e-3});
  sharded.set_gradient_divisor(2 * world.size());
  torch::Tensor loss;
  for (int64_t step = 1; step <= 20; ++step) {
    for (int64_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
      auto inputs = batch_of(2 * step + micro_batch, rank);
      loss = nn::functional::mse_loss(model->forward(inputs).to(torch::kFloat32), inputs);
      loss.backward();
    }
    sharded.clip_grad_norm_(1.0);
    optimizer.step();
    optimizer.zero_grad();
  }
  if (rank == 0) std::printf("last loss %.4f\n", loss.item<double>());
  fsdp::save_checkpoint("fsdp", {.model = &sharded, .optimizer = &optimizer, .step = 20});
}

int main() { return fsdp::launch({.ranks = 2}, train); }
