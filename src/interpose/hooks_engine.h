// The engine of autograd that LibTorch asks for the hooks of each tensor which a node saves. It answers that, and
// leaves all else to the engine that was the default before: LibTorch's own, or that of Python.
//
// An engine that executed backwards by itself would fail on a GPU: LibTorch starts autograd's device threads once per
// process, for the first engine that executes, and only that one has them.
#pragma once

#include <torch/csrc/autograd/engine.h>

#include "interpose/libtorch_versions.h"

namespace fsdp::interpose {

class HooksEngine final : public torch::autograd::Engine {
 public:
  using SavedTensorHooks = std::unique_ptr<torch::autograd::SavedVariableHooks>;
  // Returns the hooks for the next saved tensor of this thread. `others` has those of the engine behind.
  using Answer = SavedTensorHooks (*)(Engine& others);

  // Makes it the default engine, in front of the present one. Cheap where it is the default already. Any thread, while
  // no backward runs. Python replaces the default engine when torch is imported: install it again afterwards.
  static void install(Answer answer);

  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs, bool keep_graph,
                                         bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override;
  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& graph_task, NodeOwner graph_root,
      torch::autograd::InputBuffer&& input_buffer) override;
  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override;
  SavedTensorHooks get_default_saved_variable_hooks() override;
};

}  // namespace fsdp::interpose
