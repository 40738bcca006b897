// Tensors that autograd saves: who keeps them, that they come back, and what counts them.
#include "interpose/saved_tensors.h"

#include <gmock/gmock.h>

#include "interpose/activation_count.h"
#include "interpose/parameters.h"
#include "support/message_of.h"

namespace fsdp::interpose {
namespace {

using fsdp::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Keeps copies, and how many of them there are.
class Copies final : public SavedTensorKeeper {
 public:
  SavedTensorHooks hooks() override { return std::make_unique<Copy>(*this); }

  int alive = 0, packed = 0, unpacked = 0;

 private:
  struct Copy final : ActivationHooks {
    explicit Copy(Copies& of) : copies(of) { ++copies.alive; }
    ~Copy() override { --copies.alive; }
    void pack(const torch::Tensor& activation) override {
      ++copies.packed;
      copy = activation.detach().clone();
    }
    torch::Tensor unpack() override {
      ++copies.unpacked;
      return copy;
    }
    Copies& copies;
    torch::Tensor copy;
  };
};

TEST(SavedTensors, AreKeptByTheInnermostScope) {
  Copies outer, inner;
  const torch::Tensor x = leaf({2, 3});
  torch::Tensor loss;
  {
    const SavedTensorsScope outer_scope(&outer);
    torch::Tensor y = x * x;  // both factors
    {
      const SavedTensorsScope inner_scope(&inner);
      y = y.exp();  // its result
      const SavedTensorsScope none(nullptr);
      y = y.exp();
    }
    loss = (y * 2).sum() + x.pow(2).sum();
  }
  loss = loss.sqrt();  // outside of all
  EXPECT_EQ(outer.packed, 3);
  EXPECT_EQ(inner.packed, 1);
  loss.backward();
  EXPECT_EQ(outer.unpacked, 3);
  EXPECT_EQ(inner.unpacked, 1);
  const torch::Tensor same = leaf({2, 3});
  ((same * same).exp().exp() * 2).sum().add(same.pow(2).sum()).sqrt().backward();
  EXPECT_TRUE(same_bits(x.grad(), same.grad()));
  EXPECT_EQ(outer.alive + inner.alive, 0);  // the backward has given them up
}

// A node's own result, kept with its graph, would hold the node for ever.
TEST(SavedTensors, AreGivenUpWithTheGraph) {
  Copies copies;
  const auto count = std::make_shared<ActivationCount>(1);
  const auto counted = counting_keeper(count, 0);
  for (SavedTensorKeeper* keeper : {static_cast<SavedTensorKeeper*>(&copies), counted.get()}) {
    const SavedTensorsScope scope(keeper);
    leaf({2, 3}).exp().sigmoid().sum();
  }
  EXPECT_EQ(copies.packed, 2);
  EXPECT_EQ(copies.alive, 0);
  EXPECT_THAT(count->storages(), IsEmpty());
}

class SavedParameters : public Interpose {};

TEST_F(SavedParameters, AreNobodysActivations) {
  Copies copies;
  const torch::Tensor x = input.clone().set_requires_grad(true);
  torch::Tensor loss;
  {
    const SavedTensorsScope scope(&copies);
    loss = torch::mm(x, weight.t()).sum();  // saves both factors
  }
  EXPECT_EQ(copies.packed, 1);
  loss.backward();
  EXPECT_EQ(copies.unpacked, 1);
  EXPECT_TRUE(same_bits(x.grad(), torch::ones({2, 3}).mm(ramp({3, 4}))));
  EXPECT_EQ(recorder.gradients[std::pair(0, 0)].size(), 1u);
}

TEST(CountedActivations, ShareStorages) {
  const auto count = std::make_shared<ActivationCount>(2);
  const auto first = counting_keeper(count, 0), second = counting_keeper(count, 1);
  const torch::Tensor x = leaf({8, 4});
  torch::Tensor loss;
  {
    const SavedTensorsScope scope(first.get());
    loss = (x * x).sum() + x.narrow(0, 0, 2).pow(2).sum();  // x's storage, three times
  }
  {
    const SavedTensorsScope scope(second.get());
    loss = loss + x.t().pow(2).sum() + (x + 1).pow(2).sum();  // and a tensor of its own
  }
  EXPECT_THAT(count->bytes().now, ElementsAre(8 * 4 * 4, 8 * 4 * 4));
  EXPECT_THAT(count->storages(), ElementsAre(8 * 4 * 4, 8 * 4 * 4));
  loss.backward();
  EXPECT_THAT(count->bytes().now, ElementsAre(0, 0));
  EXPECT_THAT(count->bytes().at_peak, ElementsAre(8 * 4 * 4, 8 * 4 * 4));
}

TEST(CountedActivations, HaveAPeakThatBeginsAnew) {
  ActivationCount count(2);
  const int a = 0, b = 0, c = 0;
  count.keep(&a, 100, 0);
  count.keep(&b, 10, 1);
  EXPECT_THAT(count.bytes().at_peak, ElementsAre(100, 10));
  count.give_up(&a);
  count.keep(&c, 50, 1);
  EXPECT_THAT(count.bytes().now, ElementsAre(0, 60));
  EXPECT_THAT(count.bytes().at_peak, ElementsAre(100, 10));
  count.begin_peak();
  EXPECT_THAT(count.bytes().at_peak, ElementsAre(0, 60));
  count.give_up(&b);
  count.keep(&b, 20, 0);
  EXPECT_THAT(count.bytes().at_peak, ElementsAre(20, 50));
}

// Autograd leaves the check of versions to hooks.
TEST(CountedActivations, AreCheckedForWritesInPlace) {
  const auto keeper = counting_keeper(std::make_shared<ActivationCount>(1), 0);
  const torch::Tensor x = leaf({2, 3});
  torch::Tensor y, loss;
  {
    const SavedTensorsScope scope(keeper.get());
    y = x * 2;
    loss = y.exp().mul(y).sum();
  }
  y.detach().add_(1);
  EXPECT_THAT(message_of([&] { loss.backward(); }),
              AllOf(HasSubstr("modified by an inplace operation: [CPUFloatType [2, 3]] is at version 1; expected "
                              "version 0"),
                    HasSubstr("clone()")));
}

TEST(CountedActivations, KeepSecondDerivatives) {
  const auto keeper = counting_keeper(std::make_shared<ActivationCount>(1), 0);
  const auto second_derivative = [](const torch::Tensor& x) {
    const auto first = torch::autograd::grad({x.exp().pow(3).sum()}, {x}, {}, true, /*create_graph=*/true);
    return torch::autograd::grad({first[0].square().sum()}, {x})[0];
  };
  const torch::Tensor expected = second_derivative(leaf({2, 3}));
  const SavedTensorsScope scope(keeper.get());
  EXPECT_TRUE(same_bits(second_derivative(leaf({2, 3})), expected));
}

}  // namespace
}  // namespace fsdp::interpose
