#include <memory>

#include "fsdp/activations.h"
#include "interpose/activation_count.h"

namespace fsdp {

std::vector<KeptStorages> preview_activations(const torch::nn::Module& module,
                                              const std::function<torch::Tensor()>& run) {
  std::vector<KeptStorages> moments;
  const auto count = std::make_shared<interpose::ActivationCount>(/*units=*/1, &moments);
  for (const torch::Tensor& parameter : module.parameters()) count->leave_out(parameter);
  const auto keeper = interpose::counting_keeper(count, /*unit=*/0);
  const interpose::SavedTensorsScope scope(keeper.get());
  interpose::watch_saved_tensors(keeper);  // what checkpoints keep outside of their own scopes
  const torch::Tensor result = run();      // has a graph, maybe, and so what is kept for it
  interpose::watch_saved_tensors(nullptr);
  count->end_moments();
  return moments;
}

}  // namespace fsdp
