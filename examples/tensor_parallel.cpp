// Two replicas of a model whose layers are divided among two ranks each. The replicas are sharded, too.
#include <fsdp/fsdp.h>

#include <cstdio>

namespace {

constexpr int64_t kWidth = 32, kInner = 128;

// Each rank has half of the inner features.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const fsdp::World& tensor)
      : norm(torch::nn::LayerNormOptions({kWidth})),
        up(torch::nn::LinearOptions(kWidth, kInner), tensor),
        down(torch::nn::LinearOptions(kInner, kWidth), tensor) {
    register_module("norm", norm), register_module("up", up), register_module("down", down);
  }
  torch::Tensor forward(const torch::Tensor& x) { return x + down(torch::gelu(up(norm(x)))); }

  torch::nn::LayerNorm norm;
  fsdp::ColumnParallelLinear up;
  fsdp::RowParallelLinear down;
};
TORCH_MODULE(Block);

void train(fsdp::World& world) {
  const fsdp::Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
  fsdp::World data = mesh["data"], tensor = mesh["tensor"];
  torch::manual_seed(1);  // the same first values on every rank
  torch::nn::Sequential model;
  for (int i = 0; i < 2; ++i) model->push_back(Block(tensor));
  auto sharded = fsdp::shard(*model, data);
  fsdp::AdamW optimizer(sharded, {.lr = 3e-3});
  for (int64_t step = 0; step < 100; ++step) {
    fsdp::seed_micro_batch(1, step, data.rank());  // ranks of a replica have the same batch
    const torch::Tensor x = torch::randn({16, kWidth});
    auto loss = torch::mse_loss(model->forward(x), x.flip(1));
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    if ((step + 1) % 25 == 0 && world.rank() == 0)
      std::printf("step %3lld  loss %.4f\n", static_cast<long long>(step + 1), loss.item<double>());
  }
}

}  // namespace

int main() { return fsdp::launch({.ranks = 4}, train); }
