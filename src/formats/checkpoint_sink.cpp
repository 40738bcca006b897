// A checkpoint of this library in one shard, which any number of ranks loads.
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "checkpoint/contents.h"
#include "checkpoint/manifest.h"
#include "checkpoint/partial_directory.h"
#include "checkpoint/safetensors.h"
#include "files/printable.h"
#include "formats/sink.h"

namespace fsdp::formats {

namespace {

using checkpoint::Manifest;

std::filesystem::path whole_path(const std::filesystem::path& target) {
  const std::filesystem::path path = std::filesystem::absolute(target).lexically_normal();
  return path.filename().empty() ? path.parent_path() : path;  // "run/step-5/" is "run/step-5"
}

std::filesystem::path check_existing(const std::filesystem::path& target, Existing existing) {
  std::error_code ignored;
  const bool is_free = !std::filesystem::exists(target, ignored) || std::filesystem::is_empty(target, ignored);
  FSDP_CHECK(is_free || existing == Existing::Replace, "{} is there already. Move it away, or name another target.",
             target.string());
  return target;
}

std::string kind_of(const TensorName& name) {
  return name.role == Role::State ? fmt::format("{}.{}", checkpoint::kOptimizer, name.state) : checkpoint::kModel;
}

class CheckpointSink : public Sink {
 public:
  CheckpointSink(const std::filesystem::path& target, Announced announced, Existing existing)
      : announced_(std::move(announced)),
        directory_(check_existing(whole_path(target), existing)),
        path_(directory_.path() / checkpoint::shard_file_name(0, 1)),
        file_(path_) {
    fill_manifest();
    writer_.emplace(file_, path_.string(), in_file(), std::map<std::string, std::string>{{"format", "pt"}},
                    checkpoint::Hashes::InHeader);
  }

  void write(const torch::Tensor& tensor) override {
    const StoredTensor& stored = announced_.tensors.at(next_++);
    if (is_scalar(stored)) {
      parameter(stored).scalars[kind_of(stored.name)] = tensor.to(torch::kFloat64).item<double>();
    } else if (tensor.numel() > 0 || stored.name.role == Role::Buffer) {
      writer_->write(tensor);
    }
  }

  void commit() override {
    manifest_.files = {writer_->close()};
    checkpoint::write_manifest(directory_.path(), manifest_);
    directory_.commit();
  }

 private:
  // A number that the optimizer has for a parameter, such as its steps, and no tensor like the parameter.
  bool is_scalar(const StoredTensor& tensor) const {
    if (tensor.name.role != Role::State || !tensor.shape.empty()) return false;
    const auto found = parameters_.find(tensor.name.name);
    const bool is_of_number = found != parameters_.end() && manifest_.parameters[found->second].shape.empty();
    return !is_of_number || tensor.name.state == "step";
  }

  Manifest::Parameter& parameter(const StoredTensor& tensor) {
    const auto found = parameters_.find(tensor.name.name);
    FSDP_CHECK(found != parameters_.end(), "found state of {}, and no parameter of that name",
               files::printable(tensor.name.name));
    return manifest_.parameters[found->second];
  }

  void fill_manifest() {
    manifest_.step = announced_.facts.step;
    manifest_.notes = announced_.facts.notes;
    for (const StoredTensor& tensor : announced_.tensors) {
      if (tensor.name.role == Role::Parameter) add_parameter(tensor);
      if (tensor.name.role == Role::Buffer) {
        manifest_.buffers.push_back({tensor.name.name, tensor.shape, checkpoint::dtype_name(tensor.type)});
      }
    }
    for (const StoredTensor& tensor : announced_.tensors) {
      if (tensor.name.role == Role::State && !is_scalar(tensor)) add_state(tensor);
    }
  }

  void add_parameter(const StoredTensor& tensor) {
    parameters_.emplace(tensor.name.name, manifest_.parameters.size());
    Manifest::Parameter& parameter = manifest_.parameters.emplace_back();
    parameter.name = tensor.name.name;
    parameter.shape = tensor.shape;
    parameter.strides = contiguous_strides(tensor.shape);
    parameter.tensors[checkpoint::kModel] = checkpoint::dtype_name(tensor.type);
    const int64_t numel = *checkpoint::numel_of(tensor.shape);
    if (numel > 0) parameter.parts.push_back({.placement = layout::part_of_whole(tensor.shape, {0, numel})});
  }

  void add_state(const StoredTensor& tensor) {
    Manifest::Parameter& of = parameter(tensor);
    FSDP_CHECK(of.shape == tensor.shape, "{} has the shape {}, and its parameter {}",
               files::printable(tensor.name.text()), tensor.shape, of.shape);
    of.tensors[kind_of(tensor.name)] = checkpoint::dtype_name(tensor.type);
  }

  std::vector<checkpoint::SafetensorsWriter::Announced> in_file() const {
    std::vector<checkpoint::SafetensorsWriter::Announced> announced;
    for (const StoredTensor& tensor : announced_.tensors) {
      const int64_t numel = *checkpoint::numel_of(tensor.shape);
      if (tensor.name.role == Role::Buffer) {
        announced.push_back({checkpoint::kBuffer + tensor.name.name, tensor.type, tensor.shape});
      } else if (!is_scalar(tensor) && numel > 0) {
        announced.push_back({kind_of(tensor.name) + "." + tensor.name.name, tensor.type, {numel}});
      }
    }
    return announced;
  }

  Announced announced_;
  std::map<std::string, size_t> parameters_;  // in the manifest, by name
  checkpoint::PartialDirectory directory_;
  std::filesystem::path path_;
  files::DurableFile file_;
  Manifest manifest_;
  std::optional<checkpoint::SafetensorsWriter> writer_;
  size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Sink> write_checkpoint(const std::filesystem::path& target, Announced announced, Existing existing) {
  return std::make_unique<CheckpointSink>(target, std::move(announced), existing);
}

}  // namespace fsdp::formats
