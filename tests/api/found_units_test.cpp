// A policy that finds no unit is an error, and a model that is to be one unit is one.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/scripted_model.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using torch::nn::Linear;
using torch::nn::LinearImpl;
using torch::nn::ReLU;
using torch::nn::ReLUImpl;
using torch::nn::Sequential;

Sequential make_layers() { return Sequential(Linear(2, 3), ReLU(), Linear(3, 2)); }

std::vector<std::string> unit_names(const Options& options, const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const UnitSummary& unit : preview_units(module, options)) names.push_back(unit.name);
  return names;
}

TEST(FoundUnits, APolicyThatFindsNoneIsAnErrorThatSaysHowToMakeOne) {
  const auto layers = make_layers();
  const auto none = AllOf(HasSubstr("found no unit"), HasSubstr("torch::nn::LinearImpl"),
                          Not(HasSubstr("torch::nn::ReLUImpl")), HasSubstr("fsdp::one_unit()"));
  for (const UnitPolicy& policy :
       {units_of<torch::nn::LSTMImpl>(), units_of<ReLUImpl>(), units_by([](const auto&...) { return false; }),
        UnitPolicy([](const auto&) { return std::vector<std::string>{}; }), UnitPolicy([](const auto&) {
          return std::vector<std::string>{"blocks.0", "1"};
        }),
        UnitPolicy([](const auto&, const auto&) { return std::vector<UnitMembers>{}; })}) {
    EXPECT_THAT(message_of<Error>([&] { preview_units(*layers, {.units = policy}); }), none);
  }
  run_ranks(1, [](World& world) {
    auto layers = make_layers();
    EXPECT_THAT(message_of<Error>([&] { shard(*layers, world, {.units = units_of<torch::nn::LSTMImpl>()}); }),
                HasSubstr("found no unit"));
    auto scripted = testing_models::make_scripted();
    EXPECT_THAT(message_of<Error>([&] { shard(scripted, world, {.units = units_of<LinearImpl>()}); }),
                HasSubstr("found no unit"));
  });
}

TEST(FoundUnits, AModelThatIsOneUnitOnPurposeIsOne) {
  const auto layers = make_layers();
  const std::vector<std::string> root{"root"};
  EXPECT_EQ(unit_names({.units = one_unit()}, *layers), root);
  EXPECT_EQ(unit_names({.units = units_by_size(1000)}, *layers), root);
  EXPECT_EQ(unit_names({}, *layers), root);
  EXPECT_EQ(unit_names({.units = units_of<LinearImpl>()}, *Linear(2, 2)), root);  // it is itself of the type
  EXPECT_EQ(unit_names({.units = UnitPolicy([](const auto&) { return std::vector<std::string>{""}; })}, *layers), root);
  EXPECT_EQ(unit_names({.units = units_of<LinearImpl>()}, *ReLU()), std::vector<std::string>{});  // nothing is gathered
}

// Their parameters lie in another unit, or are left alone: the policy has found what it was meant to find.
TEST(FoundUnits, AUnitWhoseParametersLieElsewhereIsFound) {
  torch::nn::Module model;
  const torch::Tensor weight = torch::ones({3});
  model.register_parameter("weight", weight);
  model.register_module("layer", std::make_shared<torch::nn::Module>("Head"))->register_parameter("weight", weight);
  const auto heads = units_by([](const std::string&, const auto& module) { return module.name() == "Head"; });
  EXPECT_EQ(unit_names({.units = heads}, model), std::vector<std::string>{"root"});
}

TEST(FoundUnits, TwoUnitsOfOneNameAreAnError) {
  const auto layers = make_layers();
  const UnitPolicy policy([](const torch::nn::Module&, const std::vector<std::string>&) {
    return std::vector<UnitMembers>{{.name = "a", .members = {"0"}}, {.name = "a", .members = {"2"}}};
  });
  EXPECT_THAT(message_of<Error>([&] { preview_units(*layers, {.units = policy}); }),
              HasSubstr("makes two units named a"));
  const UnitPolicy twice([](const auto&) { return std::vector<std::string>{"0", "0"}; });
  EXPECT_EQ(unit_names({.units = twice}, *layers), (std::vector<std::string>{"root", "0"}));
}

TEST(FoundUnits, EmptyFunctionsAreErrors) {
  const auto empty = HasSubstr("found an empty function");
  EXPECT_THAT(message_of<Error>([] { (void)UnitPolicy(UnitPolicy::Choose(nullptr)); }), empty);
  EXPECT_THAT(message_of<Error>([] { (void)UnitPolicy(UnitPolicy::Divide(nullptr)); }), empty);
  EXPECT_THAT(message_of<Error>([] { units_by(nullptr); }), empty);
  EXPECT_THAT(message_of<Error>([] { order_of_use(*make_layers(), nullptr); }), empty);
}

}  // namespace
}  // namespace fsdp
