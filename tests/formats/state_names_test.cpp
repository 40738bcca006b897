// The ways in which people nest state dicts, and what each tensor in them is for.
#include "formats/state_names.h"

#include <gmock/gmock.h>

namespace fsdp::formats {
namespace {

using ::testing::ElementsAre;
using Names = std::vector<std::optional<TensorName>>;

const TensorName kW = {Role::Parameter, "a.w"};
const TensorName kMoment = {Role::State, "a.w", "exp_avg"};

TEST(StateNames, OfAModelAloneAreItsOwn) {
  EXPECT_EQ(names_of_state({{"a.w"}}), Names{kW});
  EXPECT_EQ(names_of_state({{"a", "w"}}), Names{kW});
  EXPECT_EQ(names_of_state({{"model.layers.0.w"}, {"lm_head.w"}}),
            (Names{TensorName{Role::Parameter, "model.layers.0.w"}, TensorName{Role::Parameter, "lm_head.w"}}));
  EXPECT_EQ(names_of_state(std::vector<StatePath>{StatePath{}}), Names{TensorName{}});
}

TEST(StateNames, OfARunAreSortedOut) {
  const Names expected = {kW, kMoment, std::nullopt};
  for (const char* model : {"model", "state_dict", "model_state_dict", "module"}) {
    for (const char* optimizer : {"optimizer", "optim", "optimizer_state_dict", "optimizer_state"}) {
      EXPECT_EQ(names_of_state({{model, "a.w"}, {optimizer, "state", "a.w", "exp_avg"}, {"ema", "a.w"}}), expected);
      EXPECT_EQ(names_of_state({{model, "a", "w"}, {optimizer, "state.a.w.exp_avg"}, {"rng"}}), expected);
    }
  }
  EXPECT_EQ(names_of_state({{"app", "model", "a.w"}, {"app", "optim", "state", "a.w", "exp_avg"}}),
            (Names{kW, kMoment}));
}

TEST(StateNames, OfParametersByNumberAreNumbered) {
  const TensorName first = {Role::State, "0", "exp_avg"};
  EXPECT_EQ(names_of_state({{"model", "a.w"}, {"optimizer", "state", "0", "exp_avg"}}), (Names{kW, first}));
  EXPECT_TRUE(is_numbered(first));
  EXPECT_FALSE(is_numbered(kMoment));
  EXPECT_FALSE(is_numbered({Role::Parameter, "0"}));
  EXPECT_EQ(names_of_state({{"model", "a.w"}, {"optimizer", "param_groups", "0", "lr"}}), (Names{kW, std::nullopt}));
}

// A model of a (2), a buffer, b (3) and c, which is a once more; and states of the parameters 0 and 1.
std::vector<StoredTensor> numbered_run() {
  return {{.name = {Role::Parameter, "a"}, .shape = {2}},
          {.name = {Role::Buffer, "mean"}, .shape = {2}},
          {.name = {Role::Parameter, "b"}, .shape = {3}},
          {.name = {Role::Parameter, "c"}, .shape = {2}, .same_as = 0},
          {.name = {Role::State, "0", "exp_avg"}, .shape = {2}},
          {.name = {Role::State, "0", "step"}, .shape = {}},
          {.name = {Role::State, "1", "exp_avg"}, .shape = {3}}};
}

std::vector<std::string> named(std::vector<StoredTensor> tensors, const std::vector<ParameterGroup>& groups) {
  std::vector<std::string> names;
  if (name_numbered_states(tensors, groups) == NumberedStates::Unknown) return {"none"};
  for (const StoredTensor& tensor : tensors) {
    if (tensor.name.role == Role::State) names.push_back(tensor.name.text());
  }
  return names;
}

TEST(StateNames, OfNumberedParametersAreThoseOfTheGroupsOrOfTheModelInOrder) {
  const auto in_order = ElementsAre("optimizer.exp_avg.a", "optimizer.step.a", "optimizer.exp_avg.b");
  EXPECT_THAT(named(numbered_run(), {{.numbers = {0, 1}}}), in_order);
  EXPECT_THAT(named(numbered_run(), {{.numbers = {0}, .names = {"a"}}, {.numbers = {1}, .names = {"b"}}}), in_order);
  std::vector<StoredTensor> swapped = numbered_run();
  std::swap(swapped[4].shape, swapped[6].shape);
  EXPECT_THAT(named(swapped, {{.numbers = {0}, .names = {"b"}}, {.numbers = {1}, .names = {"a"}}}),
              ElementsAre("optimizer.exp_avg.b", "optimizer.step.b", "optimizer.exp_avg.a"));
}

TEST(StateNames, OfNumberedParametersSayWhereTheyComeFrom) {
  std::vector<StoredTensor> tensors = numbered_run(), none = {{.name = {Role::Parameter, "a"}, .shape = {2}}};
  EXPECT_EQ(name_numbered_states(none, {}), NumberedStates::None);
  EXPECT_EQ(name_numbered_states(tensors, {{.numbers = {0, 1}}}), NumberedStates::NamedByOrder);
  tensors = numbered_run();
  EXPECT_EQ(name_numbered_states(tensors, {{.numbers = {0, 1}, .names = {"a", "b"}}}), NumberedStates::NamedByFile);
}

TEST(StateNames, OfNumberedParametersAreNotGuessed) {
  const std::vector<std::string> none = {"none"};
  std::vector<StoredTensor> swapped = numbered_run();
  std::swap(swapped[4].shape, swapped[6].shape);
  EXPECT_EQ(named(swapped, {{.numbers = {0, 1}}}), none);                        // shapes of other parameters
  EXPECT_EQ(named(numbered_run(), {}), none);                                    // nothing is said
  EXPECT_EQ(named(numbered_run(), {{.numbers = {0}}, {.numbers = {1}}}), none);  // groups, whose order may be any
  EXPECT_EQ(named(numbered_run(), {{.numbers = {0}}}), none);                    // some are not trained
  EXPECT_EQ(named(numbered_run(), {{.numbers = {0, 1}, .names = {"a", "d"}}}), none);
  EXPECT_EQ(named(numbered_run(), {{.numbers = {0, 0}, .names = {"a", "b"}}}), none);
}

TEST(StateNames, LeadBack) {
  for (const TensorName& name : {kW, kMoment}) {
    const Names found = names_of_state({path_in_state(name, "optim"), {"model", "other"}});
    EXPECT_EQ(found[0], name);
  }
  EXPECT_THAT(path_in_state(kMoment, "optim"), ElementsAre("optim", "state", "a.w", "exp_avg"));
}

TEST(StateNames, OfBuffersAreToldByTypeNameAndPattern) {
  std::vector<StoredTensor> tensors;
  for (const char* name : {"w", "norm.running_mean", "mask", "inner.mask"}) {
    tensors.push_back({.name = {Role::Parameter, name}});
  }
  tensors.push_back({.name = {Role::Parameter, "count"}, .type = torch::kInt64});
  tensors.push_back({.name = {Role::State, "mask", "exp_avg"}});
  settle_buffers(tensors, {"*.mask"});
  std::vector<Role> roles;
  for (const StoredTensor& tensor : tensors) roles.push_back(tensor.name.role);
  EXPECT_THAT(roles,
              ElementsAre(Role::Parameter, Role::Buffer, Role::Parameter, Role::Buffer, Role::Buffer, Role::State));
}

}  // namespace
}  // namespace fsdp::formats
