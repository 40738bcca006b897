// PyTorch's distributed checkpoints.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "files/printable.h"
#include "files/reading.h"
#include "formats/dcp_metadata.h"
#include "formats/source.h"
#include "formats/torch_file.h"

namespace fsdp::formats {

namespace {

class DistributedSource : public Source {
 public:
  DistributedSource(const std::filesystem::path& path, const std::vector<std::string>& buffers)
      : Source(Format::Distributed), folder_(path), metadata_(read_dcp_metadata(path)) {
    facts_.left_out = metadata_.others;
    std::vector<StatePath> paths;
    for (const auto& tensor : metadata_.tensors) {
      paths.push_back(tensor.path.empty() ? StatePath{tensor.name} : tensor.path);
      check_files(tensor);
    }
    const auto names = names_of_state(paths);
    for (size_t i = 0; i < names.size(); ++i) {
      const DcpMetadata::Tensor& tensor = metadata_.tensors[i];
      if (names[i] && !is_numbered(*names[i])) {
        tensors_.push_back({.name = *names[i], .type = tensor.type, .shape = tensor.shape});
        numbers_.push_back(i);
      } else if (tensor.name == "step" && tensor.shape.empty() && !c10::isFloatingType(tensor.type)) {
        facts_.step = std::max<int64_t>(read_whole(tensor).to(torch::kInt64).item<int64_t>(), 0);
      } else {
        ++facts_.left_out;
      }
    }
    settle_buffers(tensors_, buffers);
  }

  torch::Tensor read(size_t number) override { return read_whole(metadata_.tensors[numbers_[number]]); }

 private:
  const files::OpenFile& file(const std::string& name) {
    auto& file = files_[name];
    const std::filesystem::path path = folder_ / name;
    if (!file) file = std::make_unique<files::OpenFile>(files::open_regular(path, path.string()));
    return *file;
  }

  void check_files(const DcpMetadata::Tensor& tensor) {
    for (const auto& chunk : tensor.chunks) {
      const int64_t bytes = file(chunk.file).bytes;
      FSDP_CHECK(chunk.begin <= bytes && chunk.bytes <= bytes - chunk.begin,
                 "{} has {} bytes, and a chunk of {} would lie from byte {} on, {} of them. Is it cut off?",
                 (folder_ / chunk.file).string(), bytes, files::printable(tensor.name), chunk.begin, chunk.bytes);
    }
  }

  torch::Tensor read_whole(const DcpMetadata::Tensor& tensor) {
    if (tensor.chunks.size() == 1 && tensor.chunks[0].sizes == tensor.shape)
      return read_chunk(tensor, tensor.chunks[0]);
    torch::Tensor whole = torch::empty(tensor.shape, tensor.type);
    for (const auto& chunk : tensor.chunks) {
      torch::Tensor part = whole;
      for (size_t i = 0; i < chunk.sizes.size(); ++i) {
        part = part.narrow(static_cast<int64_t>(i), chunk.offsets[i], chunk.sizes[i]);
      }
      part.copy_(read_chunk(tensor, chunk));
    }
    return whole;
  }

  torch::Tensor read_chunk(const DcpMetadata::Tensor& tensor, const DcpMetadata::Chunk& chunk) {
    const std::string name = (folder_ / chunk.file).string();
    const TorchFile stored(file(chunk.file), chunk.begin, chunk.bytes, name);
    const bool is_it = stored.tensors().size() == 1 && stored.tensors()[0].layout.shape == chunk.sizes &&
                       stored.tensors()[0].layout.type == tensor.type;
    FSDP_CHECK(is_it, "{} is damaged: from byte {} on lies something else than a chunk of {} with sizes {} of {}", name,
               chunk.begin, files::printable(tensor.name), chunk.sizes, toString(tensor.type));
    return stored.read(stored.tensors()[0]);
  }

  std::filesystem::path folder_;
  DcpMetadata metadata_;
  std::vector<size_t> numbers_;  // in the metadata, of each tensor
  std::map<std::string, std::unique_ptr<files::OpenFile>> files_;
};

}  // namespace

std::unique_ptr<Source> open_distributed(const std::filesystem::path& path, const std::vector<std::string>& buffers) {
  return std::make_unique<DistributedSource>(path, buffers);
}

}  // namespace fsdp::formats
