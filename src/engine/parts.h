// All that a sharded model is made of. Each part knows those above it, and none below.
//
// One lock covers every call of theirs; kernels of operators run outside of it, an optimizer's update inside.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "collectives/group.h"
#include "engine/activation_budget.h"
#include "engine/common_values.h"
#include "engine/first_values.h"
#include "engine/group_peers.h"
#include "engine/module_buffers.h"
#include "engine/parameter_writes.h"
#include "engine/tensor_performer.h"
#include "interpose/activation_count.h"
#include "interpose/backward_watch.h"
#include "schedule/step_driver.h"

namespace fsdp::engine {

class FullScope;

struct Parts {
  explicit Parts(ModelSpec spec);  // a collective
  ~Parts();
  void store_activations(const ModelSpec& spec);

  // True if this thread runs a backward. Finds out, too, that one threw, and clears up behind it.
  bool note_backward() {
    const auto note = backward.note();
    driver.note_backward(note.inside, note.abandoned);
    return note.inside;
  }
  // Throws Error unless the call may go on now. `what` names it.
  void check(schedule::Call call, std::string_view what) {
    note_backward();
    driver.check(call, what);
  }
  // Rank `source`'s values to all, in every buffer of the module. A collective.
  void broadcast_buffers(int source);
  // Gives parameters without values those of an ordinary construction, but for the ones that a load has filled: a flag
  // for each. Between begin_write and publish. A collective.
  void write_first_values(const std::vector<bool>& loaded);
  // Multiplies the gradients by the factors that are outstanding, where their sum has ended.
  void scale_now();
  // Throws Error unless the parameters are still the ones that were sharded; `what` was about to happen.
  void check_parameters(std::string_view what) const;

  mutable std::mutex mutex;
  std::unique_ptr<collectives::Group> group;
  Strategy strategy;
  int shards;                                      // ranks that share one copy of the state
  std::shared_ptr<memory::Backing> state_backing;  // of optimizers' state
  std::function<std::unique_ptr<collectives::Group>()> new_host_group;
  std::vector<ShardedParameter> parameters;
  ModuleBuffers buffers;
  CommonValues common_values;
  FirstValues first_values;
  std::vector<bool> lost_values;  // by parameter: a load broke off while it filled it, and none has done so since
  std::shared_ptr<interpose::Link> link = std::make_shared<interpose::Link>();
  Units units;

  Recorder recorder;
  interpose::ActivationWatch activations;
  ActivationBudget activation_budget;
  ModelGradients gradients;
  ShardReaders readers;
  TensorPerformer performer;
  GroupPeers peers;
  schedule::StepDriver driver;
  ParameterWrites parameter_writes;
  interpose::BackwardWatch backward;
  const FullScope* full_scope = nullptr;  // the open scope
  int64_t optimizer_bytes = 0;
  std::atomic<int64_t> save_copy_bytes = 0;  // which saves beside the program change
};

}  // namespace fsdp::engine
