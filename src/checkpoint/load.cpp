// From the files of any number of shards to this rank's pieces: everything is compared, read and checked on every rank
// before anything changes on one.
#include <algorithm>
#include <map>
#include <string_view>

#include "base/error.h"
#include "checkpoint/background_saves.h"
#include "checkpoint/comparison.h"
#include "checkpoint/contents.h"
#include "checkpoint/loaded_values.h"
#include "checkpoint/partial_directory.h"
#include "checkpoint/state_kinds.h"
#include "checkpoint/version2.h"
#include "engine/model.h"
#include "files/memory_room.h"
#include "interpose/piece_storage.h"

namespace fsdp {

namespace {

using checkpoint::Contents;
using checkpoint::Manifest;

// What a checkpoint has for each parameter of the model.
struct Found {
  std::vector<bool> there;      // values
  std::vector<bool> whole;      // values of all elements
  std::vector<bool> states;     // all kinds of the optimizer's state
  std::vector<double> numbers;  // for each scalar of the contents
};

Found find(const Manifest& saved, const Manifest& wanted, const Contents& contents) {
  std::map<std::string_view, const Manifest::Parameter*> parameters;
  for (const auto& parameter : saved.parameters) parameters.emplace(parameter.name, &parameter);
  Found found;
  for (const auto& parameter : wanted.parameters) {
    const auto one = parameters.find(parameter.name);
    const bool there = one != parameters.end();
    found.there.push_back(there);
    found.whole.push_back(there && one->second->shape == parameter.shape);
    found.states.push_back(there && checkpoint::has_state(*one->second, parameter));
  }
  for (const Contents::Piece& scalar : contents.scalars) {
    const bool there = found.states[scalar.parameter];
    const std::string& name = wanted.parameters[scalar.parameter].name;
    found.numbers.push_back(there ? parameters.at(name)->scalars.at(scalar.kind) : 0);
  }
  return found;
}

// As if all ranks were on this host.
bool has_no_room_for_copy(const Contents& contents, int ranks) {
  size_t bytes = 0;
  for (const Contents::Piece& piece : contents.pieces) bytes += piece.tensor.nbytes();
  return bytes > files::memory_room().bytes / static_cast<size_t>(ranks);
}

}  // namespace

int64_t load_checkpoint(const std::filesystem::path& target, const Checkpoint& checkpoint, const LoadOptions& options) {
  FSDP_CHECK(checkpoint.model != nullptr, "load_checkpoint: the model is missing; set .model = &sharded");
  FSDP_CHECK(options.strict || options.differences != nullptr,
             "load_checkpoint: with strict off set .differences, which says what was not loaded");
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  engine::Model& model = checkpoint.model->model();
  if (model.background_saves()) model.background_saves()->finish();  // it may be what is loaded
  collectives::Group& group = model.group();
  const std::filesystem::path directory = checkpoint::place_of(target);
  Contents contents;
  Manifest saved;
  checkpoint::Comparison comparison;
  Found found;
  std::optional<checkpoint::LoadedValues> values;
  checkpoint::all_succeed(group, "load_checkpoint " + directory.string(), [&] {
    contents = checkpoint::contents_of(checkpoint);
    saved = checkpoint::read_manifest(directory);
    if (saved.version < checkpoint::kManifestVersion) {
      checkpoint::complete_version2(directory, saved, group.rank(), group.size());
    }
    const Manifest wanted = checkpoint::manifest_of(checkpoint, contents);
    comparison = checkpoint::compare(saved, wanted, checkpoint.optimizer != nullptr);
    checkpoint::check(comparison, options.strict, directory.string());
    found = find(saved, wanted, contents);
    values.emplace(directory, saved, has_no_room_for_copy(contents, group.size()));
    for (const Contents::Piece& piece : contents.pieces) {
      const std::vector<bool>& is_there = piece.kind == checkpoint::kModel ? found.there : found.states;
      values->add(piece, model.parameters()[piece.parameter], is_there[piece.parameter]);
    }
    if (group.rank() == 0) values->add_buffers(model.buffers());
    values->read();
  });
  model.begin_load("load_checkpoint");
  model.loaded(found.whole);
  std::string changed;  // files, while they were read
  try {
    values->write();
  } catch (const Error& error) {
    changed = error.what();
  }
  for (size_t i = 0; i < contents.scalars.size(); ++i) {
    torch::Tensor(contents.scalars[i].tensor).fill_(found.numbers[i]);
  }
  model.publish();
  model.broadcast_buffers(0);
  checkpoint::all_succeed(group, "load_checkpoint " + directory.string(), [&] {
    if (!changed.empty()) throw Error(changed);
  });
  if (options.differences != nullptr) *options.differences = std::move(comparison.differences);
  return saved.step;
}

std::map<std::string, std::string> checkpoint_notes(const std::filesystem::path& directory) {
  return checkpoint::read_manifest(checkpoint::place_of(directory)).notes;
}

}  // namespace fsdp
