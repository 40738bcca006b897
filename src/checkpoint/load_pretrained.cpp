// From Hugging Face files to pieces: everything is compared and read before anything changes.
#include <ATen/TensorGeometry.h>

#include <algorithm>
#include <map>
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

// The elements of a box, or the first of them.
torch::Tensor read_box(const PretrainedSource& source, const layout::Placement& box, bool transposed) {
  const layout::Placement wanted = source.is_whole ? box : layout::first_rows(box, source.entry->shape[0]);
  if (wanted.numel() == 0) return torch::empty({0}, source.entry->type);
  const int64_t row_numel = wanted.box_numel() / wanted.box[0].numel();
  const layout::Range rows{wanted.range.begin / row_numel, (wanted.range.end + row_numel - 1) / row_numel};
  const int64_t first = wanted.box[0].begin + rows.begin;
  torch::Tensor values;
  if (transposed) {
    values = source.file->read(*source.entry).t().narrow(0, first, rows.numel());
  } else {
    std::vector<int64_t> shape = wanted.shape;
    shape[0] = rows.numel();
    const int64_t numel = c10::multiply_integers(shape), in_row = numel / rows.numel();
    values = source.file->read(*source.entry, first * in_row, numel).view(shape);
  }
  for (size_t dim = 1; dim < wanted.box.size(); ++dim) {
    values = values.narrow(static_cast<int64_t>(dim), wanted.box[dim].begin, wanted.box[dim].numel());
  }
  const int64_t begin = wanted.range.begin - rows.begin * row_numel;
  return values.reshape({-1}).slice(0, begin, begin + wanted.numel()).clone();
}

// The model's values from one source or another. Values for a shard in a file are read when they are written: there may
// be no memory for all of them.
class PretrainedValues {
 public:
  // Both have the tensors of the whole model, the parameters before the buffers.
  PretrainedValues(engine::Model& model, std::vector<PretrainedTensor> wanted, std::vector<PretrainedSource> sources)
      : model_(model), wanted_(std::move(wanted)), sources_(std::move(sources)) {
    find_numbers();
    for (size_t i = 0; i < shapes_.size(); ++i) {
      const bool is_later = memory::pages_of(interpose::plain(model.parameters()[i].piece)) != nullptr;
      std::vector<torch::Tensor>& values = values_.emplace_back();
      for (size_t k = 0; k < segments_[i].size(); ++k) values.push_back(is_later ? torch::Tensor() : read(i, k));
    }
    for (const size_t number : buffers_) buffer_values_.push_back(read_buffer(number));
  }

  // Which parameters are loaded whole.
  std::vector<bool> whole() const {
    std::vector<bool> whole;
    for (const size_t number : numbers_) whole.push_back(sources_[number].is_whole);
    return whole;
  }
  // Which of them at all.
  std::vector<bool> there() const {
    std::vector<bool> there;
    for (const size_t number : numbers_) there.push_back(sources_[number].entry != nullptr);
    return there;
  }
  void write() const {
    write_parameters();
    copy_buffers();
  }

 private:
  void find_numbers() {
    std::map<std::string, size_t> parameters, buffers;
    for (size_t i = 0; i < wanted_.size(); ++i) (wanted_[i].is_buffer ? buffers : parameters)[wanted_[i].name] = i;
    for (const auto& unit : model_.units()) {
      for (const engine::Shape& shape : unit->shapes) shapes_.push_back(&shape);
    }
    for (const ShardedParameter& one : model_.parameters()) {
      numbers_.push_back(parameters.at(checkpoint::name_in_whole(model_.whole(), one.name)));
      segments_.push_back(
          checkpoint::segments_of(model_.whole(), one.name, one.shape, {one.offset, one.offset + one.piece.numel()}));
    }
    for (const auto& [name, buffer] : model_.buffers()) buffers_.push_back(buffers.at(name));
  }
  void write_parameters() const {
    for (size_t i = 0; i < shapes_.size(); ++i) {
      for (size_t k = 0; k < segments_[i].size(); ++k) {
        const torch::Tensor values = values_[i][k].defined() ? values_[i][k] : read(i, k);
        const int64_t at = segments_[i][k].at;
        if (values.defined()) {
          torch::Tensor(model_.parameters()[i].piece).slice(0, at, at + values.numel()).copy_(values);
        }
      }
    }
  }
  void copy_buffers() const {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (buffer_values_[i].defined()) engine::copy_values(model_.buffers()[i].second, buffer_values_[i]);
    }
  }

  // A segment of this rank's piece of a parameter; undefined if the files lack it.
  torch::Tensor read(size_t i, size_t k) const {
    const PretrainedSource& source = sources_[numbers_[i]];
    if (source.entry == nullptr) return {};
    const bool transposed = wanted_[numbers_[i]].transposed;
    const layout::Placement& placement = segments_[i][k].placement;
    if (!placement.is_whole_box()) return read_box(source, placement, transposed);
    return read_piece(source, model_.parameters()[i], *shapes_[i], transposed);
  }
  torch::Tensor read_buffer(size_t number) const {
    if (sources_[number].entry == nullptr) return {};
    const torch::Tensor whole = sources_[number].file->read(*sources_[number].entry);
    return wanted_[number].transposed ? whole.t() : whole;
  }

  engine::Model& model_;
  std::vector<PretrainedTensor> wanted_;
  std::vector<PretrainedSource> sources_;
  std::vector<const engine::Shape*> shapes_;  // of the model's parameters; so are the next four
  std::vector<size_t> numbers_;               // among the tensors
  std::vector<std::vector<checkpoint::Segment>> segments_;
  std::vector<std::vector<torch::Tensor>> values_;  // of the segments
  std::vector<size_t> buffers_;                     // numbers among the tensors
  std::vector<torch::Tensor> buffer_values_;
};

}  // namespace

void load_pretrained(const std::filesystem::path& path, ShardedModel& sharded, const PretrainedOptions& options) {
  checkpoint::check_told("load_pretrained", options.strict, options.differences);
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  engine::Model& model = sharded.model();
  const checkpoint::CheckpointRanks ranks(model, options.mesh);
  model.check(schedule::Call::WriteState, "load_pretrained");
  const std::string what = "load_pretrained " + path.string();
  const checkpoint::PretrainedModel wanted = checkpoint::pretrained_model(sharded, ranks, what, options);
  std::optional<PretrainedFiles> files;
  std::optional<PretrainedValues> values;
  LoadDifferences differences;
  ranks.all_succeed(what, [&] {
    files.emplace(path);
    checkpoint::PretrainedMatch match = checkpoint::match(*files, wanted.tensors, options);
    checkpoint::throw_if_any(match.problems, path.string() + " holds another model",
                             "Build the model of these files, describe the differences in PretrainedOptions, or load "
                             "the matching part with strict off.");
    values.emplace(model, wanted.tensors, std::move(match.sources));
    differences = std::move(match.differences);
  });
  checkpoint::fill(model, {.call = schedule::Call::WriteState,
                           .what = what,
                           .there = values->there(),
                           .whole = values->whole(),
                           .write = [&] { values->write(); },
                           .break_off = {},
                           .ranks = &ranks});
  if (options.differences != nullptr) *options.differences = std::move(differences);
}

}  // namespace fsdp
