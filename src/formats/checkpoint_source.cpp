// Checkpoints of this library: the parts of each parameter and its states, joined.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "checkpoint/contents.h"
#include "checkpoint/manifest.h"
#include "checkpoint/manifest_parts.h"
#include "checkpoint/saved_ranges.h"
#include "checkpoint/shard_file.h"
#include "checkpoint/version2.h"
#include "files/printable.h"
#include "formats/element_types.h"
#include "formats/source.h"
#include "optim/block8.h"

namespace fsdp::formats {

namespace {

using checkpoint::Manifest;
using checkpoint::ShardFile;

constexpr std::string_view kScaleSuffix = "_scale";

torch::ScalarType type_named(const std::string& dtype, const std::string& name) {
  for (const ElementType& one : element_types()) {
    if (checkpoint::dtype_name(one.type) == dtype) return one.type;
  }
  FSDP_CHECK(false, "{} has the unknown dtype '{}'", name, files::printable(dtype));
  return {};
}

// "exp_avg" of "optimizer.exp_avg".
std::string state_of_kind(const std::string& kind) {
  const size_t dot = kind.find('.');
  return dot == std::string::npos ? kind : kind.substr(dot + 1);
}

// The elements of a parameter follow each other in memory, in whatever order of its dimensions.
bool is_dense(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  if (shape.size() != strides.size()) return false;
  std::vector<size_t> order;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) order.push_back(i);
  }
  std::ranges::sort(order, {}, [&](size_t i) { return strides[i]; });
  int64_t expected = 1;
  for (const size_t i : order) {
    if (shape[i] == 0) return true;
    if (strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

// A state in codes of 8 bits as the numbers that they stand for.
template <typename Code>
torch::Tensor unpacked(const torch::Tensor& codes, const torch::Tensor& scales) {
  torch::Tensor values = torch::empty({codes.numel()}, torch::kFloat32);
  const auto* from = static_cast<const Code*>(codes.const_data_ptr());
  auto* to = static_cast<float*>(values.mutable_data_ptr());
  const auto* scale = static_cast<const float*>(scales.const_data_ptr());
  for (int64_t at = 0; at < codes.numel(); at += optim::kBlock8Numel) {
    const int64_t numel = std::min(optim::kBlock8Numel, codes.numel() - at);
    optim::block8_unpack(std::span(from + at, static_cast<size_t>(numel)), *scale++, to + at);
  }
  return values;
}

void copy_runs(const torch::Tensor& values, const std::vector<layout::CommonRuns>& all, const torch::Tensor& into) {
  const auto width = static_cast<int64_t>(values.element_size());
  const auto* from = static_cast<const char*>(values.const_data_ptr());
  auto* to = static_cast<char*>(into.mutable_data_ptr());
  for (const layout::CommonRuns& runs : all) {
    for (int64_t run = 0; run < runs.count; ++run) {
      std::memcpy(to + (runs.b + run * runs.step_b) * width, from + (runs.a + run * runs.step_a) * width,
                  static_cast<size_t>(runs.numel * width));
    }
  }
}

class CheckpointSource : public Source {
 public:
  explicit CheckpointSource(const std::filesystem::path& path)
      : Source(Format::Checkpoint),
        directory_(path),
        manifest_(checkpoint::read_manifest(path)),
        files_(manifest_.files.size()) {
    if (manifest_.version == 2) checkpoint::complete_version2(path, manifest_, 0, 1);
    facts_.step = manifest_.step;
    facts_.notes = manifest_.notes;
    for (const Manifest::Parameter& parameter : manifest_.parameters) add(parameter);
    for (const Manifest::Buffer& buffer : manifest_.buffers) {
      add({.name = {Role::Buffer, buffer.name}, .type = type_named(buffer.dtype, name()), .shape = buffer.shape},
          {.kind = "", .buffer = &buffer});
    }
  }

  torch::Tensor read(size_t number) override {
    const Place& place = places_[number];
    if (place.buffer != nullptr) return read_buffer(*place.buffer);
    if (place.scalar) return torch::tensor(*place.scalar, torch::kFloat32);
    return read_parts(*place.parameter, place.kind);
  }

 private:
  struct Place {
    std::string kind;
    const Manifest::Parameter* parameter = nullptr;
    const Manifest::Buffer* buffer = nullptr;
    std::optional<double> scalar = {};
  };

  std::string name() const { return directory_.string(); }

  void check_size(const std::string& tensor, torch::ScalarType type, const std::vector<int64_t>& shape) const {
    FSDP_CHECK(bytes_of(type, shape), "{} is damaged: {} has more elements than memory can hold", name(),
               files::printable(tensor));
  }

  void add(StoredTensor tensor, Place place) {
    check_size(tensor.name.text(), tensor.type, tensor.shape);
    tensors_.push_back(std::move(tensor));
    places_.push_back(std::move(place));
  }

  void add(const Manifest::Parameter& parameter) {
    check_size(parameter.name, torch::kFloat64, parameter.shape);
    FSDP_CHECK(is_dense(parameter.shape, parameter.strides), "{} is damaged: {} of shape {} has the strides {}", name(),
               files::printable(parameter.name), parameter.shape, parameter.strides);
    for (const auto& [kind, dtype] : parameter.tensors) {
      StoredTensor tensor{.type = type_named(dtype, name()), .shape = parameter.shape};
      tensor.name = {Role::Parameter, parameter.name};
      if (kind != checkpoint::kModel) tensor.name = {Role::State, parameter.name, state_of_kind(kind)};
      if (is_scale(parameter, kind)) continue;
      if (has_scale(parameter, kind)) tensor.type = torch::kFloat32;
      add(std::move(tensor), {.kind = kind, .parameter = &parameter});
    }
    for (const auto& [kind, value] : parameter.scalars) {
      add({.name = {Role::State, parameter.name, state_of_kind(kind)}, .type = torch::kFloat32},
          {.kind = kind, .parameter = &parameter, .scalar = value});
    }
  }

  static bool has_scale(const Manifest::Parameter& parameter, const std::string& kind) {
    const std::string& dtype = parameter.tensors.at(kind);
    return (dtype == "I8" || dtype == "U8") && parameter.tensors.contains(kind + std::string(kScaleSuffix));
  }
  static bool is_scale(const Manifest::Parameter& parameter, const std::string& kind) {
    if (!kind.ends_with(kScaleSuffix)) return false;
    const std::string of = kind.substr(0, kind.size() - kScaleSuffix.size());
    return parameter.tensors.contains(of) && has_scale(parameter, of);
  }

  const ShardFile& file(int number) {
    auto& file = files_.at(static_cast<size_t>(number));
    if (!file) {
      file = std::make_unique<ShardFile>(directory_ / checkpoint::file_name(manifest_, number),
                                         manifest_.files[static_cast<size_t>(number)]);
    }
    return *file;
  }

  // `numel` elements of the tensor, from number `first` on.
  torch::Tensor read_entry(const ShardFile& from, const ShardFile::Entry& entry, int64_t first, int64_t numel) const {
    torch::Tensor values = torch::empty({numel}, entry.type);
    const auto width = static_cast<int64_t>(values.element_size());
    const std::string damage = from.read(entry, first * width, numel * width, values.mutable_data_ptr());
    FSDP_CHECK(damage.empty(), "{}", damage);
    return values;
  }

  torch::Tensor read_buffer(const Manifest::Buffer& buffer) {
    const ShardFile& from = file(buffer.file);
    const auto& entry = from.entry(checkpoint::kBuffer + buffer.name, buffer.dtype, buffer.shape);
    return read_entry(from, entry, 0, c10::multiply_integers(buffer.shape)).view(buffer.shape);
  }

  // The elements of a part. `whole`: all that its file has of the parameter.
  torch::Tensor read_part(const Manifest::Parameter& parameter, const Manifest::Part& part, const std::string& kind,
                          int64_t whole) {
    const std::string& dtype = parameter.tensors.at(kind);
    const ShardFile& from = file(part.file);
    const int64_t numel = part.placement.numel();
    const auto& entry = from.entry(kind + "." + parameter.name, dtype, {whole});
    torch::Tensor values = read_entry(from, entry, part.offset, numel);
    if (!has_scale(parameter, kind)) return values;
    const std::string scale = kind + std::string(kScaleSuffix) + "." + parameter.name;
    const auto& scales_entry = from.entry(scale, "F32", {checkpoint::blocks_of(whole, optim::kBlock8Numel)});
    FSDP_CHECK(part.offset % optim::kBlock8Numel == 0, "{} is damaged: a part of {} begins within a block of {}",
               name(), files::printable(scale), optim::kBlock8Numel);
    const torch::Tensor scales = read_entry(from, scales_entry, part.offset / optim::kBlock8Numel,
                                            checkpoint::blocks_of(numel, optim::kBlock8Numel));
    return dtype == "I8" ? unpacked<int8_t>(values, scales) : unpacked<uint8_t>(values, scales);
  }

  torch::Tensor read_parts(const Manifest::Parameter& parameter, const std::string& kind) {
    const std::map<int, int64_t> wholes = checkpoint::numel_by_file(parameter.parts);
    const layout::Placement all = layout::part_of_whole(parameter.shape, {0, *checkpoint::numel_of(parameter.shape)});
    torch::Tensor joined;
    for (const Manifest::Part& part : parameter.parts) {
      const torch::Tensor values = read_part(parameter, part, kind, wholes.at(part.file));
      if (part.placement == all) {
        joined = values;
        break;
      }
      if (!joined.defined()) joined = torch::empty({all.numel()}, values.scalar_type());
      copy_runs(values, layout::common_runs(part.placement, all), joined);
    }
    if (!joined.defined()) return torch::empty(parameter.shape, type_named(parameter.tensors.at(kind), name()));
    return joined.as_strided(parameter.shape, parameter.strides).contiguous();
  }

  std::filesystem::path directory_;
  Manifest manifest_;
  std::vector<std::unique_ptr<ShardFile>> files_;  // as far as needed so far
  std::vector<Place> places_;                      // of the tensors
};

}  // namespace

std::unique_ptr<Source> open_checkpoint(const std::filesystem::path& path) {
  return std::make_unique<CheckpointSource>(path);
}

}  // namespace fsdp::formats
