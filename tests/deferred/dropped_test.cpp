// A deferred module that is destroyed before it was made real spoils nothing of what comes after it.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <stdexcept>

#include "deferred/constructions.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::IsEmpty;
using namespace testing_models;
namespace nn = torch::nn;

nn::Linear make_linear() { return nn::Linear(5, 5); }

class DroppedDeferred : public ::testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(3); }
  ~DroppedDeferred() override { torch::manual_seed(0); }
};

TEST_F(DroppedDeferred, NumbersDrawnAfterItSpoilNothing) {
  deferred_init(make_linear);
  torch::rand({3});
  for (int64_t size : {5, 6}) {
    const torch::Tensor state = generator_state();
    const nn::Linear expected(size, size);
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    generator.set_state(state);
    auto next = deferred_init([&] { return nn::Linear(size, size); });
    materialize(*next);
    EXPECT_THAT(differing(state_of(*expected), state_of(*next)), IsEmpty());
  }
}

TEST_F(DroppedDeferred, NumbersDrawnAfterItFollowFromTheSeed) {
  const auto drawn = [](uint64_t seed) {
    torch::manual_seed(seed);
    deferred_init(make_linear);
    return torch::rand({3});
  };
  const torch::Tensor first = drawn(1), again = drawn(1), other = drawn(2);
  EXPECT_TRUE(torch::equal(first, again));
  EXPECT_FALSE(torch::equal(first, other));
}

TEST_F(DroppedDeferred, ItsNumbersComeBeforeThoseOfAnother) {
  const nn::Linear dropped(5, 5), expected(5, 5);
  const torch::Tensor state = generator_state();
  torch::manual_seed(3);
  deferred_init(make_linear);
  auto next = deferred_init(make_linear);
  materialize(*next);
  EXPECT_THAT(differing(state_of(*expected), state_of(*next)), IsEmpty());
  EXPECT_TRUE(torch::equal(generator_state(), state));
}

TEST_F(DroppedDeferred, NumbersDrawnWhileItWasThereSpoilNothing) {
  {
    auto dropped = deferred_init(make_linear);
    torch::rand({3});
  }
  auto next = deferred_init(make_linear);
  EXPECT_EQ(message_of([&] { materialize(*next); }), "no error");
  EXPECT_EQ(message_of([&] { torch::rand({3}); }), "no error");
}

TEST_F(DroppedDeferred, AConstructionThatThrewSpoilsNothing) {
  EXPECT_EQ(message_of([] {
              deferred_init([] {
                nn::Linear linear(5, 5);
                throw std::runtime_error("not today");
                return linear;
              });
            }),
            "not today");
  torch::rand({3});
  auto next = deferred_init(make_linear);
  EXPECT_EQ(message_of([&] { materialize(*next); }), "no error");
}

TEST_F(DroppedDeferred, AModuleThatIsShardedIsNone) {
  const nn::Linear expected(5, 5);
  const torch::Tensor state = generator_state();
  run_ranks(1, [&](World& world) {
    torch::manual_seed(3);
    deferred_init(make_linear);
    torch::manual_seed(3);
    auto module = deferred_init(make_linear);
    auto sharded = shard(*module, world);
    EXPECT_TRUE(torch::equal(sharded.full_state()[0].second, expected->weight));
    EXPECT_TRUE(torch::equal(generator_state(), state));
  });
}

// A tensor that lives on in the scope's result is no dropped one.
TEST_F(DroppedDeferred, OneTensorOfItIsEnoughToKeepIt) {
  const torch::Tensor first = torch::rand({4}), second = torch::rand({4});
  torch::manual_seed(3);
  torch::Tensor kept = deferred_init([] {
    torch::rand({4});
    return torch::rand({4});
  });
  torch::rand({1});
  auto module = std::make_shared<nn::Module>();
  module->register_buffer("kept", kept);
  EXPECT_THAT(message_of<Error>([&] { materialize(*module); }), ::testing::HasSubstr("random numbers were drawn"));
}

}  // namespace
}  // namespace fsdp
