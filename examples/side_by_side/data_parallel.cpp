// The counterpart of data_parallel.py: every rank holds the whole model.
#include <fsdp/fsdp.h>

#include <cstdio>
#include <utility>

namespace nn = torch::nn;

std::pair<torch::Tensor, torch::Tensor> batch_of(int64_t step, int rank) {
  torch::manual_seed(1000 * step + rank);
  auto inputs = torch::rand({16, 8});
  return {inputs, inputs.sum(1, true)};
}

void train(fsdp::World& world) {
  int rank = world.rank();
  torch::manual_seed(0);
  nn::Sequential model(nn::Linear(8, 64), nn::ReLU(), nn::Linear(64, 1));
  auto ddp = fsdp::shard(*model, world, {.strategy = fsdp::Strategy::NoShard});
  fsdp::AdamW optimizer(ddp, {.lr = 1e-2});
  torch::Tensor loss;
  for (int64_t step = 1; step <= 60; ++step) {
    auto [inputs, targets] = batch_of(step, rank);
    loss = nn::functional::mse_loss(model->forward(inputs), targets);
    loss.backward();
    ddp.clip_grad_norm_(1.0);
    optimizer.step();
    optimizer.zero_grad();
  }
  if (rank == 0) std::printf("last loss %.4f\n", loss.item<double>());
  fsdp::save_checkpoint("ddp", {.model = &ddp, .optimizer = &optimizer, .step = 60});
}

int main() { return fsdp::launch({.ranks = 2}, train); }
