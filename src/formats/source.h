// Where a converter's tensors come from: one class for each format.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "formats/format.h"
#include "formats/stored_tensor.h"

namespace fsdp::formats {

// Open for reading: names, dtypes and shapes are known and checked, bytes are read one tensor at a time. One thread.
class Source {
 public:
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  Format format() const { return format_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredFacts& facts() const { return facts_; }
  // Row-major. Throws Error where the bytes are damaged or cannot be read.
  virtual torch::Tensor read(size_t number) = 0;

 protected:
  explicit Source(Format format) : format_(format) {}
  Format format_;
  std::vector<StoredTensor> tensors_;
  StoredFacts facts_;
};

// The source at `path`, of the format. All throw Error, naming the file. `buffers` are patterns (* and ?) of names of
// buffers, in addition to names that look like buffers: formats of state dicts do not say which tensors are parameters.
std::unique_ptr<Source> open_source(const std::filesystem::path& path, Format format,
                                    const std::vector<std::string>& buffers);
std::unique_ptr<Source> open_checkpoint(const std::filesystem::path& path);
std::unique_ptr<Source> open_hugging_face(const std::filesystem::path& path, const std::vector<std::string>& buffers);
// A file of torch.save, or an archive of torch::serialize.
std::unique_ptr<Source> open_torch_file(const std::filesystem::path& path, const std::vector<std::string>& buffers);
std::unique_ptr<Source> open_distributed(const std::filesystem::path& path, const std::vector<std::string>& buffers);

}  // namespace fsdp::formats
