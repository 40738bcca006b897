#include "planning/measured_activations.h"

#include <fsdp/activations.h>
#include <fsdp/loss.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "models/language_model.h"
#include "options/frozen.h"
#include "planning/generator_kept.h"
#include "planning/live_tensors.h"
#include "planning/one_thread.h"
#include "run/sharding.h"

namespace trainer {

namespace {

// `preview` of a step. A model in the dtype of full parameters keeps what a sharded one does, whose parameters have it
// while they are full.
template <typename Preview>
auto previewed_step(const RunOptions& tiny, const Preview& preview) {
  const GeneratorKept kept;
  const OneThread one_thread;
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
    if (tiny.eval_only) {
      const torch::NoGradGuard no_grad;
      model->eval();
      return model->loss(tokens, targets);
    }
    torch::Tensor loss = model->loss(tokens, targets);
    loss.backward();
    return loss;
  });
}

std::map<int64_t, int64_t> numbers_by_bytes(const fsdp::KeptStorages& storages) {
  std::map<int64_t, int64_t> number_of_bytes;
  for (const int64_t bytes : storages) ++number_of_bytes[bytes];
  return number_of_bytes;
}

PlannedTensors::Moments tensors_in_a_step(const RunOptions& tiny) {
  return previewed_step(tiny, [&](const auto& model, const auto& step) {
    const LiveTensors tensors;
    if (tiny.offload_activations) {
      fsdp::preview_offload(model, step);
    } else {
      step();
    }
    return tensors.moments();
  });
}

}  // namespace

KeptLogitBytes kept_logits_on(const torch::Device& device) {
  return [device](const RunOptions& options) {
    return fsdp::kept_logit_bytes(options.batch * options.model.context, options.model.vocabulary,
                                  compute_dtype_of(options), {}, device);
  };
}

PlannedActivations measured_activations(const torch::Device& device) {
  return PlannedActivations(
      [](const RunOptions& tiny) { return previewed_step(tiny, fsdp::preview_activations); }, kept_logits_on(device),
      {.run = [](const RunOptions& tiny) { return previewed_step(tiny, fsdp::preview_recomputation); },
       .plan = fsdp::plan_activations});
}

PlannedOffload measured_offload(const torch::Device& device) {
  return PlannedOffload(
      [](const RunOptions& tiny) {
        std::vector<PlannedOffload::Moment> moments;
        for (const auto& moment : previewed_step(tiny, fsdp::preview_offload))
          moments.push_back({numbers_by_bytes(moment.in_memory), numbers_by_bytes(moment.offloaded)});
        return moments;
      },
      kept_logits_on(device));
}

PlannedTensors measured_tensors() { return PlannedTensors(tensors_in_a_step); }

}  // namespace trainer
