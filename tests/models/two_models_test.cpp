// Two sharded models in one process, whose graphs meet.
#include <gmock/gmock.h>

#include "support/gan.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks;
using testing_models::differences;
using testing_models::Gan;
using testing_models::Training;
using testing_models::Unsharded;
using testing_models::whole_weights;

struct Trainer {
  Trainer(torch::nn::Module& module, World& world, const Options& options)
      : sharded(shard(module, world, options)), optimizer(sharded, {.lr = 1e-2}) {}

  ShardedModel sharded;
  AdamW optimizer;
};

constexpr int kTwoModelsSteps = 4;

Gan train_plain(int64_t ranks) {
  Gan gan;
  const Training training{.micro_batches = ranks};
  Unsharded generator(gan.generator.ptr(), training), discriminator(gan.discriminator.ptr(), training);
  for (int64_t step = 0; step < kTwoModelsSteps; ++step) {
    for (int64_t b = 0; b < ranks; ++b) discriminator.add([&] { return gan.discriminator_loss(step * ranks + b); });
    discriminator.step();
    for (int64_t b = 0; b < ranks; ++b) generator.add([&] { return gan.generator_loss(step * ranks + b); });
    generator.step();
  }
  return gan;
}

void train(Trainer& generator, Trainer& discriminator, Gan& gan, const World& world) {
  for (int64_t step = 0; step < kTwoModelsSteps; ++step) {
    const int64_t b = step * world.size() + world.rank();
    gan.discriminator_loss(b).backward();
    discriminator.optimizer.step();
    discriminator.optimizer.zero_grad();
    gan.generator_loss(b).backward();
    generator.optimizer.step();
    generator.optimizer.zero_grad();
    discriminator.optimizer.zero_grad();  // the generator's loss went through it
  }
}

void expect_same(const torch::nn::Module& expected, const torch::nn::Module& found, ShardedModel& sharded) {
  testing_models::Weights weights;
  for (const auto& one : expected.named_parameters()) weights.emplace_back(one.key(), one.value().detach());
  EXPECT_THAT(differences(weights, whole_weights(found, sharded)), ::testing::IsEmpty());
}

class TwoModels : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, TwoModels, ::testing::Values(2, 4), ::testing::PrintToStringParamName());

TEST_P(TwoModels, AGanHasTheBitsOfAPlainOne) {
  run_ranks(GetParam(), [](World& world) {
    const Gan plain = train_plain(world.size());
    for (const auto& [name, options] : testing_models::every_strategy(world.size())) {
      SCOPED_TRACE(name);
      Gan gan;
      Trainer generator(*gan.generator, world, options), discriminator(*gan.discriminator, world, options);
      train(generator, discriminator, gan, world);
      expect_same(*plain.generator, *gan.generator, generator.sharded);
      expect_same(*plain.discriminator, *gan.discriminator, discriminator.sharded);
    }
  });
}

}  // namespace
}  // namespace fsdp
