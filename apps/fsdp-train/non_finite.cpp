#include "non_finite.h"

namespace trainer {

std::optional<std::string> first_parameter_not_finite(fsdp::World& world, const fsdp::ShardedModel& model) {
  const auto& parameters = model.parameters();
  std::vector<uint8_t> own;
  for (const fsdp::ShardedParameter& parameter : parameters) {
    const torch::Tensor gradient = parameter.piece.grad();
    own.push_back(gradient.defined() && !gradient.isfinite().all().item<bool>());
  }
  torch::Tensor anywhere = torch::zeros({static_cast<int64_t>(own.size())}, torch::kUInt8);
  for (const torch::Tensor& rank : world.all_gather(torch::tensor(own))) anywhere |= rank;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (anywhere[static_cast<int64_t>(i)].item<uint8_t>() != 0) return parameters[i].name;
  }
  return std::nullopt;
}

}  // namespace trainer
