// From the files of any number of shards to this rank's pieces: everything is compared, read and checked on every rank
// before anything changes on one.
#include <algorithm>
#include <map>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "checkpoint/background_saves.h"
#include "checkpoint/comparison.h"
#include "checkpoint/contents.h"
#include "checkpoint/partial_directory.h"
#include "checkpoint/piece_reads.h"
#include "checkpoint/problems.h"
#include "checkpoint/saved_ranges.h"
#include "checkpoint/shard_file.h"
#include "checkpoint/version2.h"
#include "engine/model.h"
#include "interpose/piece_storage.h"

namespace fsdp {

namespace {

using checkpoint::Contents;
using checkpoint::Manifest;
using checkpoint::PieceRead;
using checkpoint::SavedRange;
using checkpoint::ShardFile;

// The values of this rank, in memory of their own, and where they go.
class LoadedValues {
 public:
  LoadedValues(const std::filesystem::path& directory, const Manifest& saved) : directory_(directory), saved_(saved) {
    for (const auto& parameter : saved.parameters) parameters_.emplace(parameter.name, &parameter);
  }

  // `is_there`: whether the checkpoint has values of that kind for the parameter, or for its first elements.
  void add(const Contents::Piece& of, const ShardedParameter& parameter, bool is_there) {
    const Manifest::Parameter* saved = is_there ? parameters_.at(parameter.name) : nullptr;
    const int64_t begin = parameter.offset, end = begin + parameter.piece.numel();
    const int64_t saved_end = saved == nullptr ? begin : std::clamp(*checkpoint::numel_of(saved->shape), begin, end);
    if (saved_end < end && of.kind != checkpoint::kModel) fresh_.push_back(of.tensor);
    if (saved_end == begin) return;
    const std::string name = of.kind + "." + parameter.name, dtype = saved->tensors.at(of.kind);
    const std::vector<SavedRange> ranges = saved_ranges(saved->pieces, {begin, saved_end}, of.numel_each);
    const int64_t numel = ranges.back().at + ranges.back().numel;
    const torch::Tensor values = torch::empty({numel}, of.tensor.scalar_type());
    const auto width = static_cast<int64_t>(values.element_size());
    for (const SavedRange& range : ranges) {
      const ShardFile& file = open(range.shard);
      reads_.push_back({&file, &file.entry(name, dtype, {range.whole}), range.first * width, range.numel * width,
                        static_cast<char*>(values.mutable_data_ptr()) + range.at * width});
    }
    copies_.emplace_back(of.tensor.slice(0, 0, numel), values);
  }

  void add_buffers(const NamedTensors& buffers) {
    for (const auto& [name, buffer] : buffers) {
      const auto saved = std::ranges::find(saved_.buffers, name, &Manifest::Buffer::name);
      if (saved == saved_.buffers.end()) continue;
      const ShardFile& file = open(0);
      const auto& entry = file.entry(checkpoint::kBuffer + name, saved->dtype, saved->shape);
      const torch::Tensor values = torch::empty(entry.shape, entry.type);
      reads_.push_back({&file, &entry, 0, entry.bytes(), static_cast<char*>(values.mutable_data_ptr())});
      copies_.emplace_back(buffer, values);
    }
  }

  // Throws Error with all that is damaged.
  void read() const {
    checkpoint::throw_if_any(checkpoint::read_and_check(reads_), directory_.string(), "Use an older checkpoint.");
  }

  void write() const {
    for (const torch::Tensor& state : fresh_) torch::Tensor(state).zero_();
    for (const auto& [target, values] : copies_) torch::Tensor(target).copy_(values);
  }

 private:
  const ShardFile& open(int shard) {
    std::unique_ptr<ShardFile>& file = files_[shard];
    if (!file) {
      file = std::make_unique<ShardFile>(directory_ / checkpoint::shard_file_name(shard, saved_.shards),
                                         saved_.files[static_cast<size_t>(shard)]);
    }
    return *file;
  }

  const std::filesystem::path& directory_;
  const Manifest& saved_;
  std::map<std::string_view, const Manifest::Parameter*> parameters_;
  std::map<int, std::unique_ptr<ShardFile>> files_;
  std::vector<PieceRead> reads_;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> copies_;  // target and values
  std::vector<torch::Tensor> fresh_;                             // not in the checkpoint, or not all of it
};

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
    found.states.push_back(
        there && std::ranges::includes(checkpoint::state_kinds(*one->second), checkpoint::state_kinds(parameter)));
  }
  for (const Contents::Piece& scalar : contents.scalars) {
    const bool there = found.states[scalar.parameter];
    const std::string& name = wanted.parameters[scalar.parameter].name;
    found.numbers.push_back(there ? parameters.at(name)->scalars.at(scalar.kind) : 0);
  }
  return found;
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
  std::optional<LoadedValues> values;
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
    values.emplace(directory, saved);
    for (const Contents::Piece& piece : contents.pieces) {
      const std::vector<bool>& is_there = piece.kind == checkpoint::kModel ? found.there : found.states;
      values->add(piece, model.parameters()[piece.parameter], is_there[piece.parameter]);
    }
    if (group.rank() == 0) values->add_buffers(model.buffers());
    values->read();
  });
  model.begin_load("load_checkpoint");
  model.loaded(found.whole);
  values->write();
  for (size_t i = 0; i < contents.scalars.size(); ++i) {
    torch::Tensor(contents.scalars[i].tensor).fill_(found.numbers[i]);
  }
  model.publish();
  model.broadcast_buffers(0);
  if (options.differences != nullptr) *options.differences = std::move(comparison.differences);
  return saved.step;
}

namespace {

// Of a checkpoint whose files are there, each with the size and the header that were saved. Throws Error otherwise.
int64_t step_of_complete(const std::filesystem::path& directory) {
  const Manifest saved = checkpoint::read_manifest(directory);
  for (int shard = 0; shard < saved.shards; ++shard) {
    checkpoint::WrittenFile file = saved.files.at(static_cast<size_t>(shard));
    if (saved.version == 2) file.hash.clear();  // of all its bytes
    ShardFile(directory / checkpoint::shard_file_name(shard, saved.shards), file);
  }
  return saved.step;
}

}  // namespace

std::map<std::string, std::string> checkpoint_notes(const std::filesystem::path& directory) {
  return checkpoint::read_manifest(checkpoint::place_of(directory)).notes;
}

std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& directory) {
  std::optional<std::filesystem::path> latest;
  int64_t step = -1;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code ignored;  // of a loop of links, say
    const std::filesystem::path target = checkpoint::target_of(entry->path());
    if (!entry->is_directory(ignored) || target.filename().string().find(".partial") != std::string::npos) continue;
    if (checkpoint::place_of(target) != entry->path()) continue;
    try {
      const int64_t found = step_of_complete(entry->path());
      if (found > step) latest = target, step = found;
    } catch (const Error&) {
      // not a checkpoint, or not a whole one
    }
  }
  return latest;
}

}  // namespace fsdp
