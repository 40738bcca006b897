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
using fsdp::testing::run_ranks_to_end;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using torch::nn::Linear;
using torch::nn::LinearImpl;
using torch::nn::ModuleList;
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

// The container of the layers in place of the layers, for example.
TEST(FoundUnits, APolicyThatLeavesNearlyTheWholeModelInOneUnitIsAWarning) {
  const auto result = run_ranks_to_end(2, [](World& world) {
    auto make = [] {
      Sequential layers(Linear(64, 64), Linear(64, 64), Linear(64, 64));
      return ModuleList(Linear(64, 4), layers, Linear(4, 64));
    };
    auto containers = make(), few = make();
    shard(*containers, world, {.units = units_of<torch::nn::SequentialImpl>()});
    shard(*few, world, {.units = units_by([](const std::string& name, const auto&) { return name == "0"; })});
  });
  EXPECT_EQ(result.exit_code, 0);
  const std::string warning = "[rank 0] [fsdp rank 0/2] warning: shard: options.units puts ";
  EXPECT_THAT(result.output, AllOf(HasSubstr(warning + "96 % of the parameters into one unit, 1."),
                                   HasSubstr(warning + "98 % of the parameters into one unit, root."),
                                   HasSubstr("fsdp::one_unit()"), Not(HasSubstr("[fsdp rank 1/2]"))));
}

TEST(FoundUnits, AModelThatIsOneUnitOnPurposeOrCannotBeDividedIsNoWarning) {
  const auto result = run_ranks_to_end(1, [](World& world) {
    const auto quiet = [&](const UnitPolicy& units, Sequential layers) { shard(*layers, world, {.units = units}); };
    const auto make = [] { return Sequential(Linear(64, 64), Linear(64, 64), Linear(64, 64)); };
    quiet(one_unit(), make());
    quiet(units_by_size(1 << 20), make());
    quiet(UnitPolicy([](const auto&) { return std::vector<std::string>{""}; }), make());
    quiet(units_of<LinearImpl>(), make());
    quiet(units_automatic(), make());
    quiet(units_of<torch::nn::LSTMImpl>(), Sequential(torch::nn::LSTM(64, 64)));
    quiet(units_by([](const std::string& name, const auto&) { return name == "0"; }), make_layers());  // small
    quiet(units_of<ReLUImpl, LinearImpl>(), Sequential(Linear(256, 256), Linear(4, 4)));  // one layer is nearly all
  });
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, Not(HasSubstr("warning")));
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
