#include "checkpoint/snapshot.h"

#include "base/error.h"
#include "checkpoint/generators.h"
#include "engine/model.h"
#include "interpose/piece_storage.h"

namespace fsdp::checkpoint {

namespace {

// The model's first rank describes all parameters, and has its buffers.
void drop_what_others_have(Snapshot& snapshot) {
  Manifest& manifest = snapshot.manifest;
  manifest.buffers.clear();
  std::erase_if(manifest.parameters,
                [&](const Manifest::Parameter& one) { return !snapshot.has_file || one.parts.empty(); });
}

void drop_copies(Manifest& manifest, const Contents& contents) {
  std::vector<Manifest::Parameter> all;
  for (size_t i = 0; i < manifest.parameters.size(); ++i) {
    if (!is_copy(contents, i)) all.push_back(std::move(manifest.parameters[i]));
  }
  manifest.parameters = std::move(all);
}

}  // namespace

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
  return {.directory = target, .what = fmt::format("{} {}", call, target.string())};
}

Snapshot snapshot_of(const Checkpoint& checkpoint) {
  engine::Model& model = checkpoint.model->model();
  const Contents contents = contents_of(checkpoint);
  const int rank = model.group().rank();
  const CheckpointRanks ranks(model, checkpoint.mesh);
  Snapshot snapshot{.manifest = manifest_of(checkpoint, contents),
                    .has_file = rank < model.shards(),  // the first shard group holds the whole model once
                    .tensors = {},
                    .generators = states_of(checkpoint.generators),
                    .leader = ranks.leader(),
                    .has_others = ranks.has_others()};
  drop_copies(snapshot.manifest, contents);
  snapshot.manifest.generators = described(snapshot.generators);
  if (rank > 0) drop_what_others_have(snapshot);
  if (snapshot.has_file) snapshot.tensors = tensors_of_file(checkpoint, contents, snapshot.of);
  for (auto& [name, tensor] : snapshot.tensors) tensor = interpose::plain(tensor);
  return snapshot;
}

}  // namespace fsdp::checkpoint
