#include "formats/format.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "checkpoint/manifest.h"
#include "checkpoint/pretrained_files.h"
#include "files/reading.h"
#include "formats/dcp_metadata.h"
#include "formats/sink.h"
#include "formats/source.h"
#include "formats/torch_file.h"

namespace fsdp::formats {

namespace {

namespace fs = std::filesystem;

constexpr std::array<FormatEntry, 5> kFormats = {
    {{Format::Checkpoint, "fsdp", "a checkpoint of this library", true},
     {Format::HuggingFace, "hf", "a Hugging Face folder", false},
     {Format::TorchFile, "pt", "a file of torch.save", true},
     {Format::Archive, "archive", "an archive of torch::serialize", false},
     {Format::Distributed, "dcp", "a distributed checkpoint of PyTorch", true}}};

}  // namespace

std::span<const FormatEntry> formats() { return kFormats; }

const FormatEntry& entry_of(Format format) { return kFormats[static_cast<size_t>(format)]; }

std::optional<Format> format_named(std::string_view word) {
  const auto found = std::ranges::find_if(kFormats, [&](const FormatEntry& entry) { return word == entry.word; });
  return found == kFormats.end() ? std::nullopt : std::optional(found->format);
}

std::optional<Format> recognise(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    if (checkpoint::is_checkpoint(path)) return Format::Checkpoint;
    if (fs::exists(path / kDcpMetadataName, ignored)) return Format::Distributed;
    const bool has_weights =
        fs::exists(path / checkpoint::kModelName, ignored) || fs::exists(path / checkpoint::kIndexName, ignored);
    return has_weights ? std::optional(Format::HuggingFace) : std::nullopt;
  }
  if (path.extension() == ".safetensors" || path.extension() == ".json") return Format::HuggingFace;
  const files::OpenFile file = files::open_regular(path, path.string());
  return is_zip(file) || is_plain_pickle(file) ? std::optional(Format::TorchFile) : std::nullopt;
}

std::unique_ptr<Source> open_source(const fs::path& path, Format format, const std::vector<std::string>& buffers) {
  switch (format) {
    case Format::Checkpoint:
      return open_checkpoint(path);
    case Format::HuggingFace:
      return open_hugging_face(path, buffers);
    case Format::Distributed:
      return open_distributed(path, buffers);
    case Format::TorchFile:
    case Format::Archive:
      break;
  }
  return open_torch_file(path, buffers);
}

std::unique_ptr<Sink> make_sink(const fs::path& target, Format format, Announced announced, Existing existing,
                                const HuggingFaceFolder& folder) {
  switch (format) {
    case Format::Checkpoint:
      return write_checkpoint(target, std::move(announced), existing);
    case Format::HuggingFace:
      return write_hugging_face(target, announced, existing, folder);
    case Format::TorchFile:
      return write_torch_file(target, announced, existing);
    case Format::Distributed:
      return write_distributed(target, std::move(announced), existing);
    case Format::Archive:
      break;
  }
  return write_archive(target, std::move(announced), existing);
}

}  // namespace fsdp::formats
