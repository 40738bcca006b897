#include "engine/full_state.h"

namespace fsdp::engine {

NamedTensors full_state(Model& model, const FullStateOptions& options) {
  model.begin_read("full_state");
  torch::NoGradGuard no_grad;
  NamedTensors state;
  const bool wanted = !options.rank0_only || model.group().rank() == 0;
  for (size_t id = 0; id < model.units().size(); ++id) {
    const torch::Tensor full = model.gather_whole(id);
    const ShardedUnit& unit = *model.units()[id];
    for (size_t i = 0; wanted && i < unit.parameters.size(); ++i) {
      torch::Tensor copy = torch::empty_strided(unit.shapes[i].sizes, unit.shapes[i].strides);
      state.emplace_back(unit.parameters[i].name(), copy.copy_(unit.view(full, i)));
    }
  }
  if (!wanted || !options.buffers) return state;
  for (const auto& [name, buffer] : model.buffers())
    state.emplace_back(name, buffer.to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true));
  return state;
}

}  // namespace fsdp::engine
