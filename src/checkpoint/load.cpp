// From the files of any number of shards to this rank's pieces: everything is compared, read and checked on every rank
// before anything changes on one.
#include <algorithm>
#include <map>
#include <string_view>

#include "base/error.h"
#include "checkpoint/background_saves.h"
#include "checkpoint/comparison.h"
#include "checkpoint/contents.h"
#include "checkpoint/generators.h"
#include "checkpoint/loaded_values.h"
#include "checkpoint/partial_directory.h"
#include "checkpoint/state_kinds.h"
#include "checkpoint/version2.h"
#include "engine/model.h"
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

// A load of this rank's part.
class Loading {
 public:
  Loading(const Checkpoint& checkpoint, const std::filesystem::path& directory)
      : checkpoint_(checkpoint), model_(checkpoint.model->model()), directory_(directory) {}

  // Compares everything, and fills what is blank. Throws Error for all that differs or is damaged.
  void read(const LoadOptions& options) {
    model_.check(schedule::Call::LoadCheckpoint, "load_checkpoint");
    contents_ = checkpoint::contents_of(checkpoint_);
    saved_ = checkpoint::read_manifest(directory_);
    if (saved_.version < checkpoint::kManifestVersion) {
      checkpoint::complete_version2(directory_, saved_, model_.group().rank(), model_.group().size());
    }
    const Manifest wanted = checkpoint::manifest_of(checkpoint_, contents_);
    comparison_ = checkpoint::compare(saved_, wanted, checkpoint_.optimizer != nullptr);
    checkpoint::check(comparison_, options.strict, directory_.string());
    found_ = find(saved_, wanted, contents_);
    values_.emplace(directory_, saved_);
    for (Contents::Piece& piece : contents_.pieces) {
      piece.is_blank = piece.is_blank && found_.whole[piece.parameter];  // others are given first values below
      const std::vector<bool>& is_there = piece.kind == checkpoint::kModel ? found_.there : found_.states;
      values_->add(piece, model_.parameters()[piece.parameter], is_there[piece.parameter]);
    }
    if (model_.group().rank() == 0) values_->add_buffers(model_.buffers());
    for (const Manifest::Generator& generator : saved_.generators) {
      if (!checkpoint_.generators.contains(generator.name)) continue;
      states_.emplace_back(generator.name,
                           values_->add_generator(generator, has_same_ranks() ? model_.group().rank() : 0));
    }
    if (std::ranges::any_of(contents_.pieces, &Contents::Piece::is_blank)) model_.parts().state_backing->changes();
    values_->read();
  }
  // After a `read` that threw on some rank. A parameter without values has none still.
  void clear_blank_state() const {
    for (const Contents::Piece& piece : contents_.pieces) {
      if (piece.is_blank && piece.kind != checkpoint::kModel) torch::Tensor(piece.tensor).zero_();
    }
  }

  // A collective. Returns what the files had when they were read first, and have no more; empty: nothing.
  std::string write() const {
    model_.begin_load("load_checkpoint");
    model_.loaded(found_.whole);
    std::string changed;
    try {
      values_->write();
    } catch (const Error& error) {
      changed = error.what();
    }
    for (size_t i = 0; i < contents_.scalars.size(); ++i) {
      torch::Tensor(contents_.scalars[i].tensor).fill_(found_.numbers[i]);
    }
    model_.publish();
    model_.broadcast_buffers(0);
    return changed;
  }
  // After a `write` that found none.
  void set_generators() const {
    for (const auto& [name, state] : states_) {
      checkpoint::set_state(checkpoint_.generators.at(name), state, model_.group().rank(), has_same_ranks());
    }
  }
  // After a `write` that found changes on some rank: the optimizer's state is as before its first step.
  void break_off() const {
    for (const Contents::Piece& piece : contents_.pieces) {
      if (piece.kind != checkpoint::kModel) torch::Tensor(piece.tensor).zero_();
    }
    for (const Contents::Piece& scalar : contents_.scalars) torch::Tensor(scalar.tensor).zero_();
    model_.load_broke_off();
  }

  int64_t step() const { return saved_.step; }
  LoadDifferences& differences() { return comparison_.differences; }

 private:
  bool has_same_ranks() const { return saved_.world_size == model_.group().size(); }

  const Checkpoint& checkpoint_;
  engine::Model& model_;
  const std::filesystem::path& directory_;
  Contents contents_;
  Manifest saved_;
  checkpoint::Comparison comparison_;
  Found found_;
  std::optional<checkpoint::LoadedValues> values_;
  NamedTensors states_;  // of generators
};

}  // namespace

int64_t load_checkpoint(const std::filesystem::path& target, const Checkpoint& checkpoint, const LoadOptions& options) {
  FSDP_CHECK(checkpoint.model != nullptr, "load_checkpoint: the model is missing; set .model = &sharded");
  FSDP_CHECK(options.strict || options.differences != nullptr,
             "load_checkpoint: with strict off set .differences, which says what was not loaded");
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  engine::Model& model = checkpoint.model->model();
  if (model.background_saves()) model.background_saves()->finish();  // it may be what is loaded
  const std::filesystem::path directory = checkpoint::place_of(target);
  const std::string what = "load_checkpoint " + directory.string();
  Loading loading(checkpoint, directory);
  try {
    checkpoint::all_succeed(model.group(), what, [&] { loading.read(options); });
  } catch (...) {
    loading.clear_blank_state();
    throw;
  }
  const std::string changed = loading.write();
  try {
    checkpoint::all_succeed(model.group(), what, [&] {
      if (!changed.empty()) throw Error(changed);
    });
  } catch (...) {
    loading.break_off();
    throw;
  }
  loading.set_generators();
  if (options.differences != nullptr) *options.differences = std::move(loading.differences());
  return loading.step();
}

std::map<std::string, std::string> checkpoint_notes(const std::filesystem::path& directory) {
  return checkpoint::read_manifest(checkpoint::place_of(directory)).notes;
}

}  // namespace fsdp
