// Whole copies of the state, by name.
#include "engine/model.h"

namespace fsdp::engine {

NamedTensors Model::full_state(const FullStateOptions& options) {
  check_settled("full_state");
  torch::NoGradGuard no_grad;
  NamedTensors state;
  const bool wanted = !options.rank0_only || group_->rank() == 0;
  guarded([&] {
    for (const auto& unit : units_) {
      std::vector<torch::Tensor> shards = group_->all_gather(unit->shard);
      if (!wanted) continue;
      shards.resize(shards_);  // the first shard group's
      const torch::Tensor full = torch::cat(shards);
      for (size_t i = 0; i < unit->parameters.size(); ++i) {
        const Shape& shape = unit->shapes[i];
        state.emplace_back(unit->parameters[i].name(),
                           torch::empty_strided(shape.sizes, shape.strides).copy_(unit->view(full, i)));
      }
    }
  });
  if (!wanted || !options.buffers) return state;
  for (const auto& [name, buffer] : buffers_.named()) {
    state.emplace_back(name, buffer.to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true));
  }
  return state;
}

}  // namespace fsdp::engine
