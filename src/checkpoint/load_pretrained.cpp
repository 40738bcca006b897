// From Hugging Face files to pieces: everything is compared and read before anything changes.
#include <ATen/TensorGeometry.h>

#include <algorithm>
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
using checkpoint::SafetensorsFile;

bool is_convertible(torch::ScalarType from, torch::ScalarType to) {
  return from == to || (torch::isFloatingType(from) && torch::isFloatingType(to));
}

// Where a parameter or buffer of the model is in the files: nowhere, whole, or its first rows alone.
struct Source {
  SafetensorsFile* file = nullptr;
  const SafetensorsFile::Entry* entry = nullptr;
  bool is_whole = false;
};

// The rows that the file has are the parameter's first ones.
bool has_grown(const SafetensorsFile::Entry& entry, const PretrainedTensor& wanted) {
  const std::vector<int64_t>& shape = wanted.shape;
  const bool may = !wanted.is_buffer && !wanted.transposed && !shape.empty() && entry.shape.size() == shape.size();
  return may && entry.shape[0] < shape[0] && std::equal(shape.begin() + 1, shape.end(), entry.shape.begin() + 1);
}

// Finds each wanted tensor among those of the files, and how they differ.
class Match {
 public:
  Match(const PretrainedFiles& files, const PretrainedOptions& options) : files_(files), options_(options) {}

  std::vector<Source> find(const std::vector<PretrainedTensor>& wanted) {
    std::vector<Source> found;
    for (const PretrainedTensor& tensor : wanted) found.push_back(find(tensor));
    for (const auto& [name, tensor] : files_.tensors()) {
      if (used_.contains(name) || matches_any(options_.ignored, name)) continue;
      differs(differences_.extra, name, fmt::format("{} is in the files and not in the model", name));
    }
    return found;
  }

  const std::vector<std::string>& problems() const { return problems_; }
  LoadDifferences& differences() { return differences_; }

 private:
  Source find(const PretrainedTensor& wanted) {
    if (wanted.absent) return {};
    auto named = files_.tensors().find(wanted.name_in_file);
    if (named == files_.tensors().end() && wanted.name_in_file.starts_with(options_.optional_prefix)) {
      named = files_.tensors().find(wanted.name_in_file.substr(options_.optional_prefix.size()));
    }
    if (named == files_.tensors().end()) {
      const std::string name = (wanted.is_buffer ? checkpoint::kBuffer : "") + wanted.name;
      differs(differences_.missing, name, fmt::format("{} is missing", wanted.name_in_file));
      return {};
    }
    used_.insert(named->first);
    const auto& entry = *named->second.entry;
    if (!is_convertible(entry.type, wanted.type)) {
      problems_.push_back(fmt::format("{} is {}, which does not become the model's {}", entry.name,
                                      toString(entry.type), toString(wanted.type)));
    }
    const bool is_whole = entry.shape == wanted.shape_in_file();
    if (!is_whole) compare_shapes(entry, wanted);
    return {named->second.file, &entry, is_whole};
  }

  void compare_shapes(const SafetensorsFile::Entry& entry, const PretrainedTensor& wanted) {
    const std::string text = fmt::format("{} has shape {}, expected {}{}", entry.name, entry.shape,
                                         wanted.shape_in_file(), wanted.transposed ? ", the model's transposed" : "");
    if (!has_grown(entry, wanted)) return problems_.push_back(text);
    differs(differences_.grown, wanted.name, text);
  }

  void differs(std::vector<std::string>& kind, const std::string& name, const std::string& text) {
    kind.push_back(name);
    if (options_.strict) problems_.push_back(text);
  }

  const PretrainedFiles& files_;
  const PretrainedOptions& options_;
  std::set<std::string> used_;
  std::vector<std::string> problems_;
  LoadDifferences differences_;
};

// The elements of a parameter that `piece` holds, or the first of them, in the file's dtype. Only those are read where
// the file holds them in the order of the parameter's memory.
torch::Tensor read_piece(const Source& source, const ShardedParameter& parameter, const engine::Shape& shape,
                         bool transposed) {
  const int64_t begin = parameter.offset, end = begin + parameter.piece.numel();
  const bool is_contiguous = at::geometry_is_contiguous(shape.sizes, shape.strides);
  if (!source.is_whole || (!transposed && is_contiguous)) {
    FSDP_CHECK(is_contiguous, "{} has grown and does not lie in memory row by row: that is not loaded", parameter.name);
    const int64_t there = std::clamp(c10::multiply_integers(source.entry->shape), begin, end) - begin;
    return there == 0 ? torch::empty({0}, source.entry->type) : source.file->read(*source.entry, begin, there);
  }
  if (begin == end) return torch::empty({0}, source.entry->type);
  torch::Tensor whole = source.file->read(*source.entry);
  if (transposed) whole = whole.t();
  const torch::Tensor laid_out = torch::empty_strided(shape.sizes, shape.strides, whole.options()).copy_(whole);
  return laid_out.as_strided({laid_out.numel()}, {1}).slice(0, begin, end).clone();
}

// Of every parameter this rank's piece, then every buffer; undefined for what the files do not have.
std::vector<torch::Tensor> read_all(const engine::Model& model, const std::vector<PretrainedTensor>& wanted,
                                    const std::vector<Source>& sources) {
  std::vector<torch::Tensor> values;
  for (const auto& unit : model.units()) {
    for (const engine::Shape& shape : unit->shapes) {
      const size_t i = values.size();
      values.push_back(sources[i].entry == nullptr
                           ? torch::Tensor()
                           : read_piece(sources[i], model.parameters()[i], shape, wanted[i].transposed));
    }
  }
  for (size_t i = values.size(); i < sources.size(); ++i) {
    const bool is_there = sources[i].entry != nullptr;
    const torch::Tensor whole = is_there ? sources[i].file->read(*sources[i].entry) : torch::Tensor();
    values.push_back(wanted[i].transposed && is_there ? whole.t() : whole);
  }
  return values;
}

}  // namespace

void load_pretrained(const std::filesystem::path& path, ShardedModel& sharded, const PretrainedOptions& options) {
  FSDP_CHECK(options.strict || options.differences != nullptr,
             "load_pretrained: with strict off set .differences, which says what was not loaded");
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  engine::Model& model = sharded.model();
  model.check(schedule::Call::WriteState, "load_pretrained");
  std::vector<torch::Tensor> values;
  std::vector<bool> whole;  // what is loaded of parameters is
  LoadDifferences differences;
  checkpoint::all_succeed(model.group(), "load_pretrained " + path.string(), [&] {
    const auto wanted = checkpoint::pretrained_tensors(sharded, options);
    const PretrainedFiles files(path);
    Match match(files, options);
    const std::vector<Source> sources = match.find(wanted);
    checkpoint::throw_if_any(match.problems(), path.string() + " holds another model",
                             "Build the model of these files, name the differences in PretrainedOptions, or load what "
                             "fits with strict off.");
    values = read_all(model, wanted, sources);
    for (size_t i = 0; i < model.parameters().size(); ++i) whole.push_back(sources[i].is_whole);
    differences = std::move(match.differences());
  });
  model.begin_write("load_pretrained");
  model.loaded(whole);
  const size_t parameters = model.parameters().size();
  for (size_t i = 0; i < parameters; ++i) {
    if (values[i].defined()) torch::Tensor(model.parameters()[i].piece).slice(0, 0, values[i].numel()).copy_(values[i]);
  }
  model.publish();
  for (size_t i = parameters; i < values.size(); ++i) {
    if (values[i].defined()) torch::Tensor(model.buffers()[i - parameters].second).copy_(values[i]);
  }
  if (options.differences != nullptr) *options.differences = std::move(differences);
}

}  // namespace fsdp
