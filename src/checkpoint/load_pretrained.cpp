// From Hugging Face files to pieces: everything is compared and read before anything changes.
#include <ATen/TensorGeometry.h>

#include <set>

#include "base/error.h"
#include "base/names.h"
#include "checkpoint/contents.h"
#include "checkpoint/pretrained.h"
#include "checkpoint/pretrained_files.h"
#include "checkpoint/problems.h"
#include "engine/model.h"
#include "interpose/piece_storage.h"

namespace fsdp {

namespace {

using checkpoint::PretrainedFiles;
using checkpoint::PretrainedTensor;

bool is_convertible(torch::ScalarType from, torch::ScalarType to) {
  return from == to || (torch::isFloatingType(from) && torch::isFloatingType(to));
}

// Finds each wanted tensor among those of the files, and what is wrong with them.
class Match {
 public:
  Match(const PretrainedFiles& files, const PretrainedOptions& options) : files_(files), options_(options) {}

  std::vector<PretrainedFiles::Tensor> find(const std::vector<PretrainedTensor>& wanted) {
    std::vector<PretrainedFiles::Tensor> found;
    for (const PretrainedTensor& tensor : wanted) found.push_back(find(tensor));
    for (const auto& [name, tensor] : files_.tensors()) {
      if (!used_.contains(name) && !matches_any(options_.ignored, name)) {
        problems_.push_back(fmt::format("{} is in the files and not in the model", name));
      }
    }
    return found;
  }

  const std::vector<std::string>& problems() const { return problems_; }

 private:
  // Null for what the files do not have.
  PretrainedFiles::Tensor find(const PretrainedTensor& wanted) {
    if (wanted.absent) return {};
    auto named = files_.tensors().find(wanted.name_in_file);
    if (named == files_.tensors().end() && wanted.name_in_file.starts_with(options_.optional_prefix)) {
      named = files_.tensors().find(wanted.name_in_file.substr(options_.optional_prefix.size()));
    }
    if (named == files_.tensors().end()) {
      problems_.push_back(fmt::format("{} is missing", wanted.name_in_file));
      return {};
    }
    used_.insert(named->first);
    const auto& entry = *named->second.entry;
    if (entry.shape != wanted.shape_in_file()) {
      problems_.push_back(fmt::format("{} has shape {}, expected {}{}", entry.name, entry.shape, wanted.shape_in_file(),
                                      wanted.transposed ? ", the model's transposed" : ""));
    }
    if (!is_convertible(entry.type, wanted.type)) {
      problems_.push_back(fmt::format("{} is {}, which does not become the model's {}", entry.name,
                                      toString(entry.type), toString(wanted.type)));
    }
    return named->second;
  }

  const PretrainedFiles& files_;
  const PretrainedOptions& options_;
  std::set<std::string> used_;
  std::vector<std::string> problems_;
};

// The elements of a parameter that `piece` holds, in the file's dtype. Only those are read where the file holds them in
// the order of the parameter's memory.
torch::Tensor read_piece(const PretrainedFiles::Tensor& source, const ShardedParameter& parameter,
                         const engine::Shape& shape, bool transposed) {
  const int64_t numel = parameter.piece.numel();
  if (numel == 0) return torch::empty({0}, source.entry->type);
  if (!transposed && at::geometry_is_contiguous(shape.sizes, shape.strides)) {
    return source.file->read(*source.entry, parameter.offset, numel);
  }
  torch::Tensor whole = source.file->read(*source.entry);
  if (transposed) whole = whole.t();
  const torch::Tensor laid_out = torch::empty_strided(shape.sizes, shape.strides, whole.options()).copy_(whole);
  return laid_out.as_strided({laid_out.numel()}, {1}).slice(0, parameter.offset, parameter.offset + numel).clone();
}

// Of every parameter this rank's piece, then every buffer; undefined for what the files do not have.
std::vector<torch::Tensor> read_all(const engine::Model& model, const std::vector<PretrainedTensor>& wanted,
                                    const std::vector<PretrainedFiles::Tensor>& sources) {
  std::vector<torch::Tensor> values;
  for (const auto& unit : model.units()) {
    for (const engine::Shape& shape : unit->shapes) {
      const size_t i = values.size();
      values.push_back(wanted[i].absent ? torch::Tensor()
                                        : read_piece(sources[i], model.parameters()[i], shape, wanted[i].transposed));
    }
  }
  for (size_t i = values.size(); i < sources.size(); ++i) {
    const torch::Tensor whole = wanted[i].absent ? torch::Tensor() : sources[i].file->read(*sources[i].entry);
    values.push_back(wanted[i].transposed && whole.defined() ? whole.t() : whole);
  }
  return values;
}

}  // namespace

void load_pretrained(const std::filesystem::path& path, ShardedModel& sharded, const PretrainedOptions& options) {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  engine::Model& model = sharded.model();
  model.check(schedule::Call::WriteState, "load_pretrained");
  std::vector<torch::Tensor> values;
  checkpoint::all_succeed(model.group(), "load_pretrained " + path.string(), [&] {
    const auto wanted = checkpoint::pretrained_tensors(sharded, options);
    const PretrainedFiles files(path);
    Match match(files, options);
    const auto sources = match.find(wanted);
    checkpoint::throw_if_any(match.problems(), path.string() + " holds another model",
                             "Build the model of these files, or name the differences in PretrainedOptions.");
    values = read_all(model, wanted, sources);
  });
  model.begin_write("load_pretrained");
  const size_t parameters = model.parameters().size();
  std::vector<bool> loaded;
  for (size_t i = 0; i < parameters; ++i) {
    loaded.push_back(values[i].defined());
    if (loaded[i]) torch::Tensor(model.parameters()[i].piece).copy_(values[i]);
  }
  model.loaded(loaded);
  model.publish();
  for (size_t i = parameters; i < values.size(); ++i) {
    if (values[i].defined()) torch::Tensor(model.buffers()[i - parameters].second).copy_(values[i]);
  }
}

}  // namespace fsdp
