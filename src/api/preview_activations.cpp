#include <memory>

#include "fsdp/activations.h"
#include "interpose/activation_count.h"

namespace fsdp {

std::vector<int64_t> preview_activations(const torch::nn::Module& module,
                                         const std::function<torch::Tensor()>& forward) {
  const auto count = std::make_shared<interpose::ActivationCount>(/*units=*/1);
  for (const torch::Tensor& parameter : module.parameters()) count->leave_out(parameter);
  const auto keeper = interpose::counting_keeper(count, /*unit=*/0);
  const interpose::SavedTensorsScope scope(keeper.get());
  interpose::watch_saved_tensors(keeper);  // what checkpoints keep beside their inputs
  const torch::Tensor result = forward();  // has the graph, and so what is kept for it
  interpose::watch_saved_tensors(nullptr);
  return count->storages();
}

}  // namespace fsdp
