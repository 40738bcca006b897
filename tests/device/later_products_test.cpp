// Backwards in two parts on the tests' device: autograd's threads run both, and nothing reads what is not there yet.
#include "interpose/later_products.h"

#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <functional>
#include <utility>
#include <vector>

#include "device/device.h"
#include "device/on_streams.h"
#include "support/run_ranks.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using fsdp::testing::run_rank_processes;
using interpose::LaterProducts;
using ::testing::IsEmpty;
using testing_models::make_gpt;
using torch::Tensor;

constexpr int kTwoParts = 2;  // micro-batches of a step

// All forwards, then all backwards: whole, or all first parts and then all second parts.
testing_models::Weights train(World& world, bool in_parts, bool on_streams) {
  const auto model = testing::on_device(make_gpt(), world.device());
  ShardedModel sharded = on_streams ? testing::shard_on_streams(*model.module, world) : shard(*model.module, world);
  AdamW optimizer(sharded, {.lr = 1e-2});
  for (int step = 0; step < 3; ++step) {
    std::vector<Tensor> losses(kTwoParts);
    std::vector<LaterProducts> later(kTwoParts);
    const auto each = [&](const std::function<void(int)>& part) {
      for (int i = 0; i < kTwoParts; ++i) {
        const MicroBatch scope(sharded, i);
        part(i);
      }
    };
    each([&](int i) { losses[i] = model.loss((step * kTwoParts + i) * world.size() + world.rank()); });
    if (in_parts) {
      each([&](int i) { later[i].backward_to_inputs({std::exchange(losses[i], {})}, {{}}, {}); });
      each([&](int i) { later[i].run(); });
    } else {
      for (const Tensor& loss : losses) EXPECT_TRUE(loss.is_cuda());
      each([&](int i) { std::exchange(losses[i], {}).backward(); });
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  return testing_models::whole_weights(*model.module, sharded);
}

void expect_bits_of_whole_backwards(World& world, bool on_streams) {
  const testing_models::OnDevice data(world.device());
  const auto expected = train(world, false, on_streams);
  testing::device::start_log();
  const auto found = train(world, true, on_streams);
  testing::device::stop_log();
  EXPECT_THAT(testing::device::missing_waits(), IsEmpty());
  EXPECT_THAT(testing_models::differences(expected, found), IsEmpty());
}

TEST(LaterProductsOnDevice, HaveTheBitsOfWholeBackwards) {
  for (int ranks : {1, 2})
    run_rank_processes(ranks, [](World& world) { expect_bits_of_whole_backwards(world, false); });
}

TEST(LaterProductsOnDevice, HaveTheBitsOfWholeBackwardsOnStreams) {
  run_rank_processes(2, [](World& world) { expect_bits_of_whole_backwards(world, true); });
}

TEST(LaterProductsOnDevice, OfPlainModulesHaveTheBitsOfAnUndividedBackward) {
  run_rank_processes(1, [](World& world) {
    const testing_models::OnDevice data(world.device());
    const auto expected = testing::on_device(make_gpt(), world.device());
    const auto found = testing::on_device(make_gpt(), world.device());
    expected.loss(0).backward();
    testing::device::start_log();
    LaterProducts later;
    later.backward_to_inputs({found.loss(0)}, {{}}, {});
    later.run();
    testing::device::stop_log();
    EXPECT_THAT(testing::device::missing_waits(), IsEmpty());
    const auto gradients = expected.module->parameters(), others = found.module->parameters();
    for (size_t i = 0; i < gradients.size(); ++i)
      EXPECT_TRUE(torch::equal(gradients[i].grad().cpu(), others[i].grad().cpu())) << i;
  });
}

}  // namespace
}  // namespace fsdp
