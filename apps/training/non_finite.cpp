#include "training/non_finite.h"

#include <algorithm>
#include <vector>

#include "training/trained_model.h"

namespace trainer {

namespace {

// The parameters of the whole model, and the units that they belong to.
std::vector<NotFinite> all_parameters(const models::ModelConfig& model) {
  std::vector<NotFinite> all;
  for (const models::Unit& unit : models::units(model)) {
    for (const models::Parameter& parameter : unit.parameters) {
      all.push_back({.parameter = parameter.name, .unit = unit.name, .rank = 0});
    }
  }
  return all;
}

}  // namespace

std::optional<NotFinite> first_not_finite(fsdp::World& world, const fsdp::ShardedModel& sharded,
                                          const models::ModelConfig& model) {
  std::vector<NotFinite> all = all_parameters(model);
  std::vector<std::string> not_finite;
  for (const std::string& name : sharded.gradients_not_finite()) not_finite.push_back(name_in_whole_model(model, name));
  std::vector<uint8_t> own;
  for (const NotFinite& one : all) own.push_back(std::ranges::find(not_finite, one.parameter) != not_finite.end());
  const std::vector<torch::Tensor> ranks = world.all_gather(torch::tensor(own));
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (ranks[rank][static_cast<int64_t>(i)].item<uint8_t>() == 0) continue;
      all[i].rank = static_cast<int>(rank);
      return all[i];
    }
  }
  return std::nullopt;
}

}  // namespace trainer
