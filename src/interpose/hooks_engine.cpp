#include "interpose/hooks_engine.h"

#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/input_buffer.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <atomic>
#include <utility>

namespace fsdp::interpose {

namespace {

using torch::autograd::Engine;

std::atomic<Engine*> engine_behind = nullptr;
std::atomic<HooksEngine::Answer> answer_hooks = nullptr;

// Never destroyed: autograd may run until the process ends.
Engine& hooks_engine() {
  static HooksEngine& engine = *new HooksEngine;
  return engine;
}

Engine& behind() { return *engine_behind.load(std::memory_order_relaxed); }

}  // namespace

void HooksEngine::install(Answer answer) {
  Engine& present = get_default_engine();
  if (&present == &hooks_engine()) return;
  answer_hooks = answer;
  engine_behind = &present;
  torch::autograd::set_default_engine_stub(hooks_engine);
}

torch::autograd::variable_list HooksEngine::execute(const torch::autograd::edge_list& roots,
                                                    const torch::autograd::variable_list& inputs, bool keep_graph,
                                                    bool create_graph, bool accumulate_grad,
                                                    const torch::autograd::edge_list& outputs) {
  return behind().execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
}

c10::intrusive_ptr<at::ivalue::Future> HooksEngine::execute_with_graph_task(
    const std::shared_ptr<torch::autograd::GraphTask>& graph_task, NodeOwner graph_root,
    torch::autograd::InputBuffer&& input_buffer) {
  return behind().execute_with_graph_task(graph_task, std::move(graph_root), std::move(input_buffer));
}

std::unique_ptr<torch::autograd::AnomalyMetadata> HooksEngine::make_anomaly_metadata() {
  return behind().make_anomaly_metadata();
}

HooksEngine::SavedTensorHooks HooksEngine::get_default_saved_variable_hooks() {
  return answer_hooks.load(std::memory_order_relaxed)(behind());
}

}  // namespace fsdp::interpose
