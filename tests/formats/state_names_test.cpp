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

TEST(StateNames, OfParametersByNumberAreNone) {
  EXPECT_EQ(names_of_state({{"model", "a.w"}, {"optimizer", "state", "0", "exp_avg"}}), (Names{kW, std::nullopt}));
  EXPECT_EQ(names_of_state({{"model", "a.w"}, {"optimizer", "param_groups", "0", "lr"}}), (Names{kW, std::nullopt}));
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
