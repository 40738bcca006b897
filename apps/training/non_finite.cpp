#include "training/non_finite.h"

#include <algorithm>

namespace trainer {

namespace {

std::string unit_of(const std::string& parameter, const models::ModelConfig& model) {
  for (const models::Unit& unit : models::units(model)) {
    const auto is_it = [&](const models::Parameter& one) { return one.name == parameter; };
    if (std::any_of(unit.parameters.begin(), unit.parameters.end(), is_it)) return unit.name;
  }
  return "";
}

}  // namespace

std::optional<NotFinite> first_not_finite(fsdp::World& world, const fsdp::ShardedModel& sharded,
                                          const models::ModelConfig& model) {
  const auto& parameters = sharded.parameters();
  const std::vector<std::string> not_finite = sharded.gradients_not_finite();
  std::vector<uint8_t> own;
  for (const fsdp::ShardedParameter& parameter : parameters)
    own.push_back(std::ranges::find(not_finite, parameter.name) != not_finite.end());
  const std::vector<torch::Tensor> ranks = world.all_gather(torch::tensor(own));
  for (size_t i = 0; i < parameters.size(); ++i) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (ranks[rank][static_cast<int64_t>(i)].item<uint8_t>() == 0) continue;
      const std::string& name = parameters[i].name;
      return NotFinite{.parameter = name, .unit = unit_of(name, model), .rank = static_cast<int>(rank)};
    }
  }
  return std::nullopt;
}

}  // namespace trainer
