// From the files of any number of shards to this rank's pieces: everything is compared and checked on every rank before
// anything changes on one that could be lost.
#include <algorithm>
#include <map>
#include <string_view>

#include "base/error.h"
#include "checkpoint/background_saves.h"
#include "checkpoint/comparison.h"
#include "checkpoint/contents.h"
#include "checkpoint/fill.h"
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

// A checkpoint's contents for each parameter of the model.
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
      : checkpoint_(checkpoint),
        model_(checkpoint.model->model()),
        ranks_(model_, checkpoint.mesh),
        directory_(directory),
        what_("load_checkpoint " + directory.string()) {}

  // A collective, which throws on every rank what one throws.
  void read(const LoadOptions& options) {
    try {
      ranks_.all_succeed(what_, [&] { describe(); });
      whole_ = own_;
      if (ranks_.has_others()) {
        ranks_.run("load_checkpoint", [&](collectives::Group& group) {
          whole_ = checkpoint::describe_whole(group, own_, model_.group().rank() == 0);
        });
      }
      ranks_.all_succeed(what_, [&] { read_values(options); });
    } catch (...) {
      if (values_) values_->clear_blank();
      throw;
    }
  }
  // A collective, after a `read` that went well on every rank. Where a write fails, the optimizer's state is as before
  // its first step.
  void write() const {
    checkpoint::fill(model_, {.call = schedule::Call::LoadCheckpoint,
                              .what = what_,
                              .there = found_.there,
                              .whole = found_.whole,
                              .write = [this] { write_values(); },
                              .break_off = [this] { drop_states(); },
                              .ranks = &ranks_});
    for (const auto& [name, state] : states_) {
      checkpoint::set_state(checkpoint_.generators.at(name), state, ranks_.rank(), has_same_ranks());
    }
  }

  int64_t step() const { return saved_.step; }
  LoadDifferences& differences() { return comparison_.differences; }

 private:
  void describe() {
    model_.check(schedule::Call::LoadCheckpoint, "load_checkpoint");
    ranks_.leader();  // the mesh is one of this model
    contents_ = checkpoint::contents_of(checkpoint_);
    own_ = checkpoint::manifest_of(checkpoint_, contents_);
    own_.generators = checkpoint::described(checkpoint::states_of(checkpoint_.generators));
  }
  // Compares everything, and fills what is blank. Throws Error for all that differs or is damaged.
  void read_values(const LoadOptions& options) {
    saved_ = checkpoint::read_manifest(directory_);
    if (saved_.version == 2) checkpoint::complete_version2(directory_, saved_, ranks_.rank(), ranks_.size());
    comparison_ = checkpoint::compare(saved_, whole_, checkpoint_.optimizer != nullptr);
    checkpoint::check(comparison_, options.strict, directory_.string());
    found_ = find(saved_, own_, contents_);
    values_.emplace(directory_, saved_);
    add_pieces();
    values_->add_buffers(model_.buffers());
    add_generators();
    values_->read();
    for (const auto& [name, state] : states_) checkpoint::check_state(checkpoint_.generators.at(name), name, state);
  }
  // Writes at once what has nothing to lose, where all of it is there.
  void add_pieces() {
    const std::vector<bool> missing = model_.missing_values(), unstepped = unstepped_parameters();
    bool any_blank = false;
    for (const Contents::Piece& piece : contents_.pieces) {
      const bool is_model = piece.kind == checkpoint::kModel;
      const bool is_blank = found_.whole[piece.parameter] && (is_model ? missing : unstepped)[piece.parameter];
      const bool is_there = (is_model ? found_.there : found_.states)[piece.parameter];
      for (const checkpoint::Segment& segment : contents_.segments[piece.parameter]) {
        values_->add(part_of(piece, segment), contents_.names[piece.parameter], segment.placement, is_there, is_blank);
      }
      any_blank |= is_blank;
    }
    if (any_blank) model_.give_state_out();
  }
  // States made by this library's optimizers and not changed yet: zeros.
  std::vector<bool> unstepped_parameters() const {
    std::vector<bool> unstepped(model_.parameters().size(), false);
    const auto* ours = dynamic_cast<const PieceOptimizer*>(checkpoint_.optimizer);
    if (ours == nullptr) return unstepped;
    for (const Contents::Piece& scalar : contents_.scalars) {
      if (scalar.kind.ends_with(".step")) unstepped[scalar.parameter] = scalar.tensor.item<double>() == 0;
    }
    if (!ours->gave_state_out()) return unstepped;
    for (const Contents::Piece& piece : contents_.pieces) {
      const bool is_written = piece.kind != checkpoint::kModel && piece.tensor.any().item<bool>();
      if (is_written) unstepped[piece.parameter] = false;
    }
    return unstepped;
  }
  void add_generators() {
    for (const Manifest::Generator& generator : saved_.generators) {
      if (!checkpoint_.generators.contains(generator.name)) continue;
      states_.emplace_back(generator.name, values_->add_generator(generator, has_same_ranks() ? ranks_.rank() : 0));
    }
  }
  void write_values() const {
    values_->write();
    for (size_t i = 0; i < contents_.scalars.size(); ++i) {
      torch::Tensor(contents_.scalars[i].tensor).fill_(found_.numbers[i]);
    }
  }
  void drop_states() const {
    for (const Contents::Piece& piece : contents_.pieces) {
      if (piece.kind != checkpoint::kModel) torch::Tensor(piece.tensor).zero_();
    }
    for (const Contents::Piece& scalar : contents_.scalars) torch::Tensor(scalar.tensor).zero_();
  }
  bool has_same_ranks() const { return saved_.world_size == ranks_.size(); }

  const Checkpoint& checkpoint_;
  engine::Model& model_;
  checkpoint::CheckpointRanks ranks_;
  const std::filesystem::path& directory_;
  const std::string what_;
  Contents contents_;
  Manifest own_;    // what this rank's model has
  Manifest whole_;  // what all ranks' models have
  Manifest saved_;
  checkpoint::Comparison comparison_;
  Found found_;
  std::optional<checkpoint::LoadedValues> values_;
  NamedTensors states_;  // of generators
};

}  // namespace

int64_t load_checkpoint(const std::filesystem::path& target, const Checkpoint& checkpoint, const LoadOptions& options) {
  FSDP_CHECK(checkpoint.model != nullptr, "load_checkpoint: the model is missing; set .model = &sharded");
  checkpoint::check_told("load_checkpoint", options.strict, options.differences);
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  engine::Model& model = checkpoint.model->model();
  checkpoint::finish_background_saves(model);  // it may be what is loaded
  const std::filesystem::path directory = checkpoint::place_of(target);
  Loading loading(checkpoint, directory);
  loading.read(options);
  loading.write();
  if (options.differences != nullptr) *options.differences = std::move(loading.differences());
  return loading.step();
}

std::map<std::string, std::string> checkpoint_notes(const std::filesystem::path& directory) {
  return checkpoint::read_manifest(checkpoint::place_of(directory)).notes;
}

}  // namespace fsdp
