#include "planning/measured_activations.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fsdp/activations.h>

#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/language_model.h"
#include "options/frozen.h"
#include "run/sharding.h"

namespace trainer {

namespace {

// Puts the default generator back to where it was.
class GeneratorKept {
 public:
  GeneratorKept() : generator_(at::detail::getDefaultCPUGenerator()) {
    const std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~GeneratorKept() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }
  GeneratorKept(const GeneratorKept&) = delete;
  GeneratorKept& operator=(const GeneratorKept&) = delete;

 private:
  at::Generator generator_;
  torch::Tensor state_;
};

// Calls `preview` with a model and a function that runs one step of it. A model in the dtype of full parameters keeps
// what a sharded one does, whose parameters have it while they are full.
template <typename Preview>
auto in_a_step(const Options& tiny, Preview preview) {
  const GeneratorKept kept;
  const auto model = models::make_model(tiny.model);
  model->set_recomputation(tiny.recomputation());
  const std::set<std::string> frozen = frozen_parameters(tiny);
  for (auto& parameter : model->named_parameters()) {
    if (frozen.contains(parameter.key())) parameter.value().set_requires_grad(false);
  }
  model->to(compute_dtype_of(tiny));
  const std::vector<int64_t> shape = {tiny.batch, tiny.model.context};
  const torch::Tensor tokens = torch::zeros(shape, torch::kInt64), targets = torch::zeros(shape, torch::kInt64);
  return preview(*model, [&] {
    torch::Tensor loss = model->loss(tokens, targets);
    loss.backward();
    return loss;
  });
}

std::vector<fsdp::KeptStorages> kept_in_a_step(const Options& tiny) {
  return in_a_step(tiny, [](const auto& model, const auto& run) { return fsdp::preview_activations(model, run); });
}

std::vector<PlannedMoment> offloaded_in_a_step(const Options& tiny) {
  std::vector<PlannedMoment> moments;
  auto found = in_a_step(tiny, [](const auto& model, const auto& run) { return fsdp::preview_offload(model, run); });
  for (auto& moment : found) moments.push_back({std::move(moment.in_memory), std::move(moment.offloaded)});
  return moments;
}

}  // namespace

PlannedActivations measured_activations() { return PlannedActivations(kept_in_a_step, offloaded_in_a_step); }

}  // namespace trainer
