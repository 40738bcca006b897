#include <memory>
#include <utility>

#include "fsdp/activations.h"
#include "interpose/activation_count.h"
#include "interpose/stored_activations.h"
#include "memory/byte_store.h"

namespace fsdp {

namespace {

using interpose::ActivationCount;
using PreviewedRun = std::function<torch::Tensor()>;

// What is kept in `run` for the count, by that keeper.
void watch_run(const PreviewedRun& run, const std::shared_ptr<interpose::SavedTensorKeeper>& keeper) {
  const interpose::SavedTensorsScope scope(keeper.get());
  interpose::watch_saved_tensors(keeper);  // what checkpoints keep outside of their own scopes
  const torch::Tensor result = run();      // has a graph, maybe, and so what is kept for it
  interpose::watch_saved_tensors(nullptr);
}

std::vector<ActivationCount::Moment> kept_moments(const torch::nn::Module& module, const PreviewedRun& run,
                                                  bool stores) {
  std::vector<ActivationCount::Moment> moments;
  const auto count = std::make_shared<ActivationCount>(/*units=*/1, &moments);
  for (const torch::Tensor& parameter : module.parameters()) count->leave_out(parameter);
  auto keeper = interpose::counting_keeper(count, /*unit=*/0);
  if (stores) {
    interpose::StoredActivations::Rules rules{.staying = module.buffers()};
    if (const auto parameters = module.parameters(); !parameters.empty()) rules.device = parameters[0].device();
    keeper = interpose::storing_keeper(
        std::make_shared<interpose::StoredActivations>(memory::host_store(), std::move(rules), count), keeper);
  }
  watch_run(run, keeper);
  count->end_moments();
  return moments;
}

}  // namespace

std::vector<KeptStorages> preview_activations(const torch::nn::Module& module, const PreviewedRun& run) {
  std::vector<KeptStorages> kept;
  for (auto& moment : kept_moments(module, run, /*stores=*/false)) kept.push_back(std::move(moment.in_memory));
  return kept;
}

std::vector<OffloadedMoment> preview_offload(const torch::nn::Module& module, const PreviewedRun& run) {
  std::vector<OffloadedMoment> kept;
  for (auto& moment : kept_moments(module, run, /*stores=*/true))
    kept.push_back({std::move(moment.in_memory), std::move(moment.elsewhere)});
  return kept;
}

}  // namespace fsdp
