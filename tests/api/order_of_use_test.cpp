// The recorded order of use, and units cut along it.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <stdexcept>

#include "support/run_ranks.h"

namespace fsdp {
namespace {

using ::testing::ElementsAre;
using torch::Tensor;
using torch::nn::Linear;

constexpr int64_t kWidth = 64;
constexpr int kStages = 4;

// The way down is registered after the way up, which it comes before, as in a U-Net whose decoder is made first.
struct DownAndUpImpl : torch::nn::Module {
  DownAndUpImpl() {
    for (int i = 0; i < kStages; ++i) up.push_back(register_module("up" + std::to_string(i), Linear(kWidth, kWidth)));
    for (int i = 0; i < kStages; ++i)
      down.push_back(register_module("down" + std::to_string(i), Linear(kWidth, kWidth)));
  }
  Tensor forward(Tensor input) {
    for (Linear& stage : down) input = torch::relu(stage(input));
    for (Linear& stage : up) input = torch::relu(stage(input));
    return input;
  }
  std::vector<Linear> up, down;
};

Tensor batch() { return torch::ones({2, kWidth}); }

std::vector<std::string> names_of(const std::vector<UnitSummary>& units) {
  std::vector<std::string> names;
  for (const UnitSummary& unit : units) names.push_back(unit.name);
  return names;
}

TEST(OrderOfUse, IsThatOfTheForward) {
  DownAndUpImpl model;
  const auto order = order_of_use(model, [&] { model.forward(batch()); });
  ASSERT_EQ(order.size(), model.parameters().size());
  EXPECT_EQ(order.front().substr(0, 6), "down0.");
  EXPECT_EQ(order.back().substr(0, 4), "up3.");
}

TEST(OrderOfUse, OfUnitsIsThatOfTheGathers) {
  const auto units_in_order = [](DownAndUpImpl& model) {
    const torch::NoGradGuard no_grad;
    return units_automatic({.order = order_of_use(model, [&] { model.forward(batch()); })});
  };
  DownAndUpImpl model;
  EXPECT_THAT(names_of(preview_units(model, {.units = units_in_order(model)})),
              ElementsAre("down0", "down1", "down2", "down3", "up0", "up1", "up2", "up3"));
  testing::run_ranks(2, [&](World& world) {
    DownAndUpImpl sharded_model;
    auto sharded = shard(sharded_model, world, {.units = units_in_order(sharded_model)});
    for (int step = 0; step < 3; ++step) {
      sharded_model.forward(batch()).sum().backward();
      sharded.zero_grad();
    }
    const CommunicationReport before = sharded.communication();
    sharded_model.forward(batch()).sum().backward();
    const CommunicationReport step = sharded.communication().since(before);
    EXPECT_EQ(step.reductions, 2 * kStages);
    EXPECT_EQ(step.foreseen_gathers, step.gathers);
  });
}

TEST(OrderOfUse, SeesParametersInListsAndTiedOnesOnce) {
  struct RecurrentImpl : torch::nn::Module {
    RecurrentImpl() {
      head = register_module("head", Linear(8, 8));
      lstm = register_module("lstm", torch::nn::LSTM(8, 8));
      unused = register_module("unused", Linear(8, 8));
      register_module("tied", std::make_shared<torch::nn::Module>())->register_parameter("weight", head->weight);
    }
    Linear head{nullptr}, unused{nullptr};
    torch::nn::LSTM lstm{nullptr};
  } model;
  const auto order = order_of_use(model, [&] { model.head(std::get<0>(model.lstm(torch::ones({3, 1, 8})))); });
  EXPECT_THAT(order, ElementsAre("lstm.weight_ih_l0", "lstm.weight_hh_l0", "lstm.bias_ih_l0", "lstm.bias_hh_l0",
                                 "head.weight", "head.bias"));
}

TEST(OrderOfUse, AForwardThatThrowsLeavesNothingBehind) {
  DownAndUpImpl model;
  EXPECT_THROW(order_of_use(model, [] { throw std::runtime_error("no batch"); }), std::runtime_error);
  model.forward(batch());  // nobody records it
  EXPECT_TRUE(order_of_use(model, [] {}).empty());
}

}  // namespace
}  // namespace fsdp
