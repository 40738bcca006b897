// Two sharded models in one process, whose graphs meet.
#include <gmock/gmock.h>

#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using testing_models::differences;
using testing_models::Training;
using testing_models::Unsharded;
using testing_models::values_for;
using testing_models::whole_weights;
using torch::Tensor;

struct LayerImpl : torch::nn::Module {
  LayerImpl(int64_t in, int64_t out) : linear(register_module("linear", torch::nn::Linear(in, out))) {}
  Tensor forward(const Tensor& x) { return torch::tanh(linear->forward(x)); }

  torch::nn::Linear linear;
};
TORCH_MODULE(Layer);

// A generator and a discriminator (Goodfellow and others, https://arxiv.org/abs/1406.2661).
struct Gan {
  Gan() {
    torch::manual_seed(13);
    generator = torch::nn::Sequential(Layer(4, 15), Layer(15, 16), Layer(16, 6));
    discriminator = torch::nn::Sequential(Layer(6, 16), Layer(16, 15), Layer(15, 1));
  }
  Tensor fake(int64_t b) { return generator->forward(values_for(b, {5, 4})); }
  Tensor score(const Tensor& sample) { return discriminator->forward(sample).mean(); }
  Tensor discriminator_loss(int64_t b) { return score(fake(b).detach()) - score(values_for(1000 + b, {5, 6})); }
  Tensor generator_loss(int64_t b) { return -score(fake(b)); }

  torch::nn::Sequential generator, discriminator;
};

struct Trainer {
  Trainer(torch::nn::Module& module, World& world) : sharded(shard(module, world)), optimizer(sharded, {.lr = 1e-2}) {}

  ShardedModel sharded;
  AdamW optimizer;
};

constexpr int kSteps = 6;

Gan train_plain(int64_t ranks) {
  Gan gan;
  const Training training{.micro_batches = ranks};
  Unsharded generator(gan.generator.ptr(), training), discriminator(gan.discriminator.ptr(), training);
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int64_t b = 0; b < ranks; ++b) discriminator.add([&] { return gan.discriminator_loss(step * ranks + b); });
    discriminator.step();
    for (int64_t b = 0; b < ranks; ++b) generator.add([&] { return gan.generator_loss(step * ranks + b); });
    generator.step();
  }
  return gan;
}

TEST(TwoModels, AGanHasTheBitsOfAPlainOne) {
  run_ranks(2, [](World& world) {
    Gan gan;
    Trainer generator(*gan.generator, world), discriminator(*gan.discriminator, world);
    for (int64_t step = 0; step < kSteps; ++step) {
      const int64_t b = step * world.size() + world.rank();
      gan.discriminator_loss(b).backward();
      discriminator.optimizer.step();
      discriminator.optimizer.zero_grad();
      gan.generator_loss(b).backward();
      generator.optimizer.step();
      generator.optimizer.zero_grad();
      discriminator.optimizer.zero_grad();  // the generator's loss went through it
    }
    const Gan plain = train_plain(world.size());
    auto expect_same = [](const torch::nn::Module& expected, const torch::nn::Module& found, ShardedModel& sharded) {
      testing_models::Weights weights;
      for (const auto& one : expected.named_parameters()) weights.emplace_back(one.key(), one.value().detach());
      EXPECT_THAT(differences(weights, whole_weights(found, sharded)), ::testing::IsEmpty());
    };
    expect_same(*plain.generator, *gan.generator, generator.sharded);
    expect_same(*plain.discriminator, *gan.discriminator, discriminator.sharded);
  });
}

}  // namespace
}  // namespace fsdp
