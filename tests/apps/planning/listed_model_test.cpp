// Plans of models of which the parameters alone are known, beside plans of the same models by their names.
#include "planning/listed_model.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "fsdp/error.h"
#include "models/model_sizes.h"
#include "options/options.h"
#include "planning/hardware_file.h"
#include "planning/plan_numbers.h"

namespace trainer {
namespace {

models::ParameterList list_of(const models::ModelConfig& config) {
  models::ParameterList list;
  for (const models::Unit& unit : models::units(config)) {
    for (const models::Parameter& parameter : unit.parameters)
      list.parameters.push_back({parameter.name, parameter.shape});
  }
  return list;
}

PlanTarget listed_target(const models::ParameterList& list, const char* engine, int64_t hosts) {
  PlanTarget target{.hardware = hardware_of("h100"), .engine = engine, .hosts = hosts};
  target.memory = target.hardware.memory;
  target.listed = std::make_shared<const ListedModel>(listed_model(list));
  return target;
}

void expect_equal_state(const PlanNumbers& listed, const PlanNumbers& named) {
  EXPECT_EQ(listed.parameters, named.parameters);
  EXPECT_EQ(listed.memory.parameters, named.memory.parameters);
  EXPECT_EQ(listed.memory.gradients, named.memory.gradients);
  EXPECT_EQ(listed.memory.optimizer, named.memory.optimizer);
  EXPECT_EQ(listed.memory.full_parameters, named.memory.full_parameters);
  EXPECT_EQ(listed.memory.full_gradients, named.memory.full_gradients);
  EXPECT_EQ(listed.communication.within_hosts, named.communication.within_hosts);
  EXPECT_EQ(listed.communication.across_hosts, named.communication.across_hosts);
}

// All that follows from the parameters is the same, to the byte.
TEST(ListedModel, HasTheStateAndTheTrafficOfTheModelByItsName) {
  for (const std::string name : {"gpt2", "gpt2-xl", "bert-large", "llama2-7b", "llama3-8b", "llama2-70b"}) {
    for (const char* strategy : kStrategies) {
      for (const char* engine : {"libfsdp", "fsdp2", "yafsdp"}) {
        SCOPED_TRACE(name + " " + strategy + " " + engine);
        if (name == "bert-large" && engine != std::string_view("libfsdp")) continue;  // their formula has no pooler
        RunOptions options;
        options.model = models::config_of_size(name).value();
        options.ranks = 16;
        options.strategy = strategy;
        options.param_dtype = "bf16";
        options.micro_batches = 3;
        if (name != "bert-large") options.optimizer = "muon";  // its root has matrices that are no embeddings
        PlanTarget target = listed_target(list_of(options.model), engine, 2);
        const PlanNumbers listed = plan_numbers(target, options);
        target.listed = nullptr;
        expect_equal_state(listed, plan_numbers(target, options));
        EXPECT_FALSE(listed.time.has_value());
        EXPECT_FALSE(listed.memory.has_activations);
      }
    }
  }
}

TEST(ListedModel, CountsTheStateAloneInItsPeak) {
  const PlanTarget target = listed_target(list_of(models::config_of_size("gpt2").value()), "libfsdp", 1);
  RunOptions options;
  options.ranks = 8;
  const PlannedMemory memory = plan_numbers(target, options).memory;
  EXPECT_EQ(memory.peak,
            memory.parameters + memory.gradients + memory.optimizer + memory.full_parameters + memory.full_gradients);
}

TEST(ListedModel, DividesModelsWithoutARoot) {
  const models::ParameterList list{
      .parameters = {{"0.weight", {256, 256}}, {"1.weight", {256, 256}}, {"2.weight", {256, 256}}}};
  const ListedModel model = listed_model(list);
  EXPECT_FALSE(model.has_root);
  EXPECT_EQ(model.units.size(), 3u);
  EXPECT_EQ(model.root_numel(), 0);
  EXPECT_EQ(model.largest_block_numel(), 65'536);
  RunOptions options;
  options.ranks = 2;
  // Each unit is gathered for the forward and for the backward, but for those that stay in the two buffers.
  const PlanNumbers numbers = plan_numbers(listed_target(list, "libfsdp", 1), options);
  EXPECT_GT(numbers.communication.within_hosts, 0);
}

TEST(ListedModel, FrozenParametersHaveNoOptimizerState) {
  const models::ParameterList list = list_of(models::config_of_size("gpt2").value());
  PlanTarget target = listed_target(list, "libfsdp", 1);
  RunOptions options;
  options.ranks = 1;
  const double all = plan_numbers(target, options).memory.optimizer;
  target.listed = std::make_shared<const ListedModel>(listed_model(list, {"transformer.h.*"}));
  RunOptions by_name = options;
  by_name.model = models::config_of_size("gpt2").value();
  by_name.freeze = "transformer.h.*";
  PlanTarget named = target;
  named.listed = nullptr;
  const double some = plan_numbers(target, options).memory.optimizer;
  EXPECT_LT(some, all / 2);
  EXPECT_EQ(some, plan_numbers(named, by_name).memory.optimizer);
}

TEST(ListedModel, HasTheJsonOfAPlanWithNullForTheUnknown) {
  const models::ParameterList list = list_of(models::config_of_size("gpt2").value());
  PlanTarget target = listed_target(list, "libfsdp", 1);
  const RunOptions options;
  const nlohmann::json fitting = plan_json(plan_numbers(target, options));
  for (const char* name : {"activations", "others", "peak"})
    EXPECT_TRUE(fitting.at("memory").at(name).is_null()) << name;
  for (const char* name : {"parameters", "gradients", "optimizer", "full_parameters", "full_gradients"})
    EXPECT_TRUE(fitting.at("memory").at(name).is_number()) << name;
  EXPECT_TRUE(fitting.at("time").is_null());
  EXPECT_TRUE(fitting.at("fits").is_null());
  target.memory = 1e6;
  EXPECT_EQ(plan_json(plan_numbers(target, options)).at("fits"), false);
}

}  // namespace
}  // namespace trainer
