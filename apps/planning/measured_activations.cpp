#include "planning/measured_activations.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fsdp/activations.h>

#include <mutex>
#include <set>
#include <string>
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

// A model in the dtype of full parameters keeps what a sharded one does, whose parameters have it while they are full.
std::vector<int64_t> kept_by_tiny_model(const Options& options) {
  const Options tiny = with_prime_sizes(options);
  const auto model = models::make_model(tiny.model);
  const std::set<std::string> frozen = frozen_parameters(tiny);
  for (auto& parameter : model->named_parameters()) {
    if (frozen.contains(parameter.key())) parameter.value().set_requires_grad(false);
  }
  model->to(compute_dtype_of(tiny));
  const std::vector<int64_t> shape = {tiny.batch, tiny.model.context};
  const torch::Tensor tokens = torch::zeros(shape, torch::kInt64), targets = torch::zeros(shape, torch::kInt64);
  return fsdp::preview_activations(*model, [&] { return model->loss(tokens, targets); });
}

// Layers are alike, but for what is frozen in them: where they are many, two sizes of model tell what each adds.
void add_run(PlannedActivations& activations, const Options& run) {
  constexpr int64_t kMany = 16, kFew = 2;
  const int64_t layers = run.model.layers;
  if (layers <= kMany || !run.freeze.empty()) return activations.add(run, kept_by_tiny_model(run));
  Options few = run, one_more = run;
  few.model.layers = kFew;
  one_more.model.layers = kFew + 1;
  activations.add(run, kept_by_tiny_model(few), -(layers - kFew - 1));
  activations.add(run, kept_by_tiny_model(one_more), layers - kFew);
}

}  // namespace

PlannedActivations measured_activations(const Options& options) {
  const GeneratorKept kept;
  PlannedActivations activations;
  for (const std::string& dtype : {options.param_dtype, std::string("bf16")}) {
    for (const int64_t batch : {options.batch, int64_t{1}}) {
      Options run = options;
      run.param_dtype = dtype;
      run.batch = batch;
      if (!activations.knows(run)) add_run(activations, run);
    }
  }
  return activations;
}

}  // namespace trainer
