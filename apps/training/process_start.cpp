#include "training/process_start.h"

#include <fmt/format.h>
#include <fsdp/version.h>
#include <torch/version.h>

#include "metrics/machine.h"

namespace trainer {

ProcessStart process_start(const fsdp::World& world, const RunOptions& options, int64_t steps_done) {
  const models::ModelConfig& model = options.model;
  ProcessStart start;
  add_machine(start);
  start.step = steps_done;
  start.steps = options.steps;
  start.model = fmt::format("{}: {} layers of width {}, {} heads, context {}", models::name_of(model.family),
                            model.layers, model.width, model.heads, model.context);
  start.parameters = models::parameter_numel(model);
  start.ranks = world.size();
  start.hosts = (world.size() + world.local_size() - 1) / world.local_size();
  start.threads = options.threads;
  start.fsdp_version = FSDP_VERSION_STRING;
  start.torch_version = TORCH_VERSION;
  return start;
}

}  // namespace trainer
