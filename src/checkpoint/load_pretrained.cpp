// From Hugging Face files to pieces: everything is compared and read before anything changes.
#include <ATen/TensorGeometry.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "checkpoint/comparison.h"
#include "checkpoint/contents.h"
#include "checkpoint/fill.h"
#include "checkpoint/pretrained.h"
#include "checkpoint/pretrained_files.h"
#include "checkpoint/pretrained_match.h"
#include "checkpoint/problems.h"
#include "engine/model.h"
#include "interpose/piece_storage.h"
#include "memory/mapped_tensor.h"

namespace fsdp {

namespace {

using checkpoint::PretrainedFiles;
using checkpoint::PretrainedSource;
using checkpoint::PretrainedTensor;

// The elements of a parameter that `piece` holds, or the first of them, in the file's dtype. Only those are read where
// the file holds them in the order of the parameter's memory.
torch::Tensor read_piece(const PretrainedSource& source, const ShardedParameter& parameter, const engine::Shape& shape,
                         bool transposed) {
  const int64_t begin = parameter.offset, end = begin + parameter.piece.numel();
  const bool is_contiguous = at::geometry_is_contiguous(shape.sizes, shape.strides);
  const bool has_other_rows = !source.is_whole || source.is_cut;
  if (has_other_rows || (!transposed && is_contiguous)) {
    FSDP_CHECK(is_contiguous,
               "{} has another number of rows in the files and does not lie in memory row by row: that is not loaded",
               parameter.name);
    const int64_t there = std::clamp(c10::multiply_integers(source.entry->shape), begin, end) - begin;
    return there == 0 ? torch::empty({0}, source.entry->type) : source.file->read(*source.entry, begin, there);
  }
  if (begin == end) return torch::empty({0}, source.entry->type);
  torch::Tensor whole = source.file->read(*source.entry);
  if (transposed) whole = whole.t();
  const torch::Tensor laid_out = torch::empty_strided(shape.sizes, shape.strides, whole.options()).copy_(whole);
  return laid_out.as_strided({laid_out.numel()}, {1}).slice(0, begin, end).clone();
}

// The model's values from one source or another. Values for a shard in a file are read when they are written: there may
// be no memory for all of them.
class PretrainedValues {
 public:
  PretrainedValues(engine::Model& model, std::vector<PretrainedTensor> wanted, std::vector<PretrainedSource> sources)
      : model_(model), wanted_(std::move(wanted)), sources_(std::move(sources)) {
    for (const auto& unit : model.units()) {
      for (const engine::Shape& shape : unit->shapes) shapes_.push_back(&shape);
    }
    for (size_t i = 0; i < sources_.size(); ++i) {
      const bool is_later =
          i < shapes_.size() && memory::pages_of(interpose::plain(model.parameters()[i].piece)) != nullptr;
      values_.push_back(is_later ? torch::Tensor() : read(i));
    }
  }

  // Which parameters are loaded whole.
  std::vector<bool> whole() const {
    std::vector<bool> whole;
    for (size_t i = 0; i < shapes_.size(); ++i) whole.push_back(sources_[i].is_whole);
    return whole;
  }
  // Which of them at all.
  std::vector<bool> there() const {
    std::vector<bool> there;
    for (size_t i = 0; i < shapes_.size(); ++i) there.push_back(sources_[i].entry != nullptr);
    return there;
  }
  void write() const {
    write_parameters();
    copy_valuess();
  }

 private:
  void write_parameters() const {
    for (size_t i = 0; i < shapes_.size(); ++i) {
      const torch::Tensor values = values_[i].defined() ? values_[i] : read(i);
      if (values.defined()) torch::Tensor(model_.parameters()[i].piece).slice(0, 0, values.numel()).copy_(values);
    }
  }
  void copy_valuess() const {
    for (size_t i = shapes_.size(); i < values_.size(); ++i) {
      if (values_[i].defined()) engine::copy_values(model_.buffers()[i - shapes_.size()].second, values_[i]);
    }
  }

  // This rank's piece of a parameter; undefined if the files lack it.
  torch::Tensor read(size_t i) const {
    if (sources_[i].entry == nullptr) return {};
    if (i < shapes_.size()) return read_piece(sources_[i], model_.parameters()[i], *shapes_[i], wanted_[i].transposed);
    const torch::Tensor whole = sources_[i].file->read(*sources_[i].entry);
    return wanted_[i].transposed ? whole.t() : whole;
  }

  engine::Model& model_;
  std::vector<PretrainedTensor> wanted_;   // the parameters, then the buffers
  std::vector<PretrainedSource> sources_;  // of these
  std::vector<const engine::Shape*> shapes_;
  std::vector<torch::Tensor> values_;
};

}  // namespace

void load_pretrained(const std::filesystem::path& path, ShardedModel& sharded, const PretrainedOptions& options) {
  checkpoint::check_told("load_pretrained", options.strict, options.differences);
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  engine::Model& model = sharded.model();
  model.check(schedule::Call::WriteState, "load_pretrained");
  const std::string what = "load_pretrained " + path.string();
  std::optional<PretrainedFiles> files;
  std::optional<PretrainedValues> values;
  LoadDifferences differences;
  checkpoint::all_succeed(model.group(), what, [&] {
    const auto wanted = checkpoint::pretrained_tensors(sharded, options);
    files.emplace(path);
    checkpoint::PretrainedMatch match = checkpoint::match(*files, wanted, options);
    checkpoint::throw_if_any(match.problems, path.string() + " holds another model",
                             "Build the model of these files, describe the differences in PretrainedOptions, or load "
                             "the matching part with strict off.");
    values.emplace(model, wanted, std::move(match.sources));
    differences = std::move(match.differences);
  });
  checkpoint::fill(model, {.call = schedule::Call::WriteState,
                           .what = what,
                           .there = values->there(),
                           .whole = values->whole(),
                           .write = [&] { values->write(); },
                           .break_off = {}});
  if (options.differences != nullptr) *options.differences = std::move(differences);
}

}  // namespace fsdp
