#include "checkpoint/snapshot.h"

#include "base/error.h"
#include "checkpoint/generators.h"
#include "engine/model.h"
#include "interpose/piece_storage.h"

namespace fsdp::checkpoint {

SaveTarget save_target(const char* call, const std::filesystem::path& directory, const Checkpoint& checkpoint) {
  FSDP_CHECK(checkpoint.model != nullptr, "{}: the model is missing; set .model = &sharded", call);
  FSDP_CHECK(checkpoint.step >= 0 && checkpoint.step <= kHighestStep,
             "{}: found step {}, expected a number from 0 to 2^53", call, checkpoint.step);
  engine::Model& model = checkpoint.model->model();
  model.check(schedule::Call::ReadState, call);
  model.check_parameters(call);
  FSDP_CHECK(!directory.empty(), "{}: found no directory, expected the place of the checkpoint", call);
  std::filesystem::path target = std::filesystem::absolute(directory).lexically_normal();
  if (target.filename().empty()) target = target.parent_path();  // "run/step-5/" is "run/step-5"
  return {.directory = target, .what = fmt::format("{} {}", call, target.string()), .shards = model.shards()};
}

Snapshot snapshot_of(const Checkpoint& checkpoint) {
  engine::Model& model = checkpoint.model->model();
  const Contents contents = contents_of(checkpoint);
  Snapshot snapshot{.manifest = manifest_of(checkpoint, contents),
                    .scalars = {},
                    .tensors = {},
                    .generators = states_of(checkpoint.generators)};
  snapshot.manifest.generators = described(snapshot.generators);
  for (const auto& scalar : contents.scalars) snapshot.scalars.push_back({scalar.kind, scalar.parameter});
  // The first shard group holds the whole model once.
  if (model.group().rank() < model.shards()) snapshot.tensors = tensors_of_file(checkpoint, contents);
  for (auto& [name, tensor] : snapshot.tensors) tensor = interpose::plain(tensor);
  return snapshot;
}

}  // namespace fsdp::checkpoint
