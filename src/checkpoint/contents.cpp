#include "checkpoint/contents.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "engine/model.h"

namespace fsdp::checkpoint {

namespace {

constexpr int64_t kMessageBytes = 1024;

void add_optimizer(NamedTensors& tensors, const std::vector<ShardedParameter>& parameters, Optimizer& optimizer) {
  const Optimizer::State state = optimizer.state();
  for (const auto* kind : {&state.elements, &state.scalars}) {
    for (const auto& element : *kind) {
      for (size_t i = 0; i < parameters.size(); ++i) {
        if (!element.tensors[i].defined()) continue;
        tensors.emplace_back("optimizer." + element.name + "." + parameters[i].name, element.tensors[i]);
      }
    }
  }
}

}  // namespace

NamedTensors contents_of(const Checkpoint& checkpoint) {
  engine::Model& model = checkpoint.model->model();
  NamedTensors tensors;
  for (const ShardedParameter& parameter : model.parameters()) {
    tensors.emplace_back("model." + parameter.name, parameter.piece);
  }
  if (checkpoint.optimizer != nullptr) add_optimizer(tensors, model.parameters(), *checkpoint.optimizer);
  if (model.group().rank() == 0) {
    for (const auto& [name, buffer] : model.buffers()) tensors.emplace_back("buffer." + name, buffer);
  }
  return tensors;
}

Manifest manifest_of(const Checkpoint& checkpoint) {
  engine::Model& model = checkpoint.model->model();
  Manifest manifest{.world_size = model.group().size(),
                    .shards = model.shards(),
                    .step = checkpoint.step,
                    .parameters = {},
                    .notes = checkpoint.notes,
                    .files = {}};
  for (const auto& unit : model.units()) {
    for (size_t i = 0; i < unit->shapes.size(); ++i) {
      manifest.parameters.push_back({unit->parameters[i].name(), unit->shapes[i].sizes, unit->shapes[i].strides});
    }
  }
  return manifest;
}

void all_succeed(collectives::Group& group, const std::string& what, const std::function<void()>& body) {
  std::string problem;
  try {
    body();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  torch::Tensor message = torch::zeros({kMessageBytes}, torch::kUInt8);
  std::memcpy(message.mutable_data_ptr(), problem.data(), std::min<size_t>(problem.size(), kMessageBytes - 1));
  const auto messages = group.all_gather(message);
  for (int rank = 0; rank < group.size(); ++rank) {
    const std::string theirs = static_cast<const char*>(messages[rank].const_data_ptr());
    if (theirs.empty()) continue;
    if (rank == group.rank()) throw Error(problem);
    FSDP_CHECK(false, "{} failed on rank {}: {}", what, rank, theirs);
  }
}

}  // namespace fsdp::checkpoint
