#include "models/layer_units.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "apps/models/small_models.h"

namespace models {
namespace {

using Members = std::vector<std::vector<std::string>>;

TEST(LayerUnits, HoldLayersThatFollowEachOther) {
  ModelConfig config = SmallModel().config();
  config.layers = 5;
  const auto model = make_model(config);
  std::vector<std::string> names;
  Members members;
  for (const fsdp::UnitMembers& unit : layer_units(2).divide(*model)) {
    names.push_back(unit.name);
    members.push_back(unit.members);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"transformer.h.0-1", "transformer.h.2-3", "transformer.h.4"}));
  EXPECT_EQ(
      members,
      (Members{{"transformer.h.0", "transformer.h.1"}, {"transformer.h.2", "transformer.h.3"}, {"transformer.h.4"}}));
  EXPECT_EQ(layer_units(1).divide(*model).size(), 5u);
  const auto whole = layer_units(5).divide(*model);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_TRUE(whole.front().members.empty());
}

// A rank with several stages: no unit spans two of them.
TEST(LayerUnits, EndWhereLayersAreMissing) {
  ModelConfig config = SmallModel{.family = Family::Llama}.config();
  config.layers = 6;
  const auto model = make_model(config);
  struct Stages : torch::nn::Module {};
  Stages stages;
  struct Layers : torch::nn::Module {};
  const auto layers = std::make_shared<Layers>();
  for (const char* number : {"0", "1", "4", "5"})
    layers->register_module(number, model->named_modules()[std::string("model.layers.") + number]);
  stages.register_module("layers", layers);
  Members members;
  for (const fsdp::UnitMembers& unit : layer_units(6).divide(stages)) members.push_back(unit.members);
  EXPECT_EQ(members, (Members{{"layers.0", "layers.1"}, {"layers.4", "layers.5"}}));
}

}  // namespace
}  // namespace models
