#include <fsdp/fsdp.h>

#include <cstdio>

void train(fsdp::World& world) {
  torch::manual_seed(1 + world.rank());
  torch::nn::Sequential model(torch::nn::Linear(8, 64), torch::nn::ReLU(), torch::nn::Linear(64, 1));
  auto sharded = fsdp::shard(*model, world);
  fsdp::AdamW optimizer(sharded, {.lr = 1e-2});
  torch::Tensor loss;
  for (int64_t step = 0; step < 100; ++step) {
    auto inputs = torch::rand({16, 8});
    loss = torch::mse_loss(model->forward(inputs), inputs.sum(1, true));
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  std::printf("loss %.4f\n", loss.item<double>());
}

int main() { return fsdp::launch({.ranks = 2}, train); }
