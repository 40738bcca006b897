#include "base/error.h"
#include "checkpoint/contents.h"
#include "checkpoint/files.h"
#include "engine/model.h"

namespace fsdp {

void save_checkpoint(const std::filesystem::path& directory, const Checkpoint& checkpoint) {
  FSDP_CHECK(checkpoint.model != nullptr, "save_checkpoint: the model is missing; set .model = &sharded");
  engine::Model& model = checkpoint.model->model();
  model.check_settled("save_checkpoint");
  collectives::Group& group = model.group();
  const bool first = group.rank() == 0;
  std::filesystem::path target = std::filesystem::absolute(directory).lexically_normal();
  if (target.filename().empty()) target = target.parent_path();  // "run/step-5/" is "run/step-5"
  // One name on every rank; a leftover of a run that died is in nobody's way.
  std::filesystem::path partial = target;
  partial += ".partial";
  const std::string what = "save_checkpoint " + target.string();
  try {
    checkpoint::all_succeed(group, what, [&] {
      if (!first) return;
      std::filesystem::create_directories(target.parent_path());
      std::filesystem::remove_all(partial);
      std::filesystem::create_directory(partial);
    });
    checkpoint::all_succeed(group, what, [&] {
      // The first shard group holds the whole model once.
      if (group.rank() < model.shards()) {
        checkpoint::write_safetensors(partial / checkpoint::shard_file_name(group.rank(), model.shards()),
                                      checkpoint::contents_of(checkpoint), {{"format", "pt"}});
      }
      if (first) checkpoint::write_manifest(partial, checkpoint::manifest_of(checkpoint));
    });
    checkpoint::all_succeed(group, what, [&] {
      if (first) checkpoint::commit_directory(partial, target);
    });
  } catch (...) {
    std::error_code ignored;
    if (first) std::filesystem::remove_all(partial, ignored);
    throw;
  }
}

}  // namespace fsdp
