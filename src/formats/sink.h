// Where a converter's tensors go: one class for each format.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "formats/format.h"
#include "formats/stored_tensor.h"

namespace fsdp::formats {

// The tensors that a target is to hold, in this order.
struct Announced {
  std::vector<StoredTensor> tensors;
  StoredFacts facts;
};

// A target that appears whole when it is committed; without that its destructor removes what was written. One thread.
class Sink {
 public:
  virtual ~Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  // The next tensor of those announced that are not the same as an earlier one.
  virtual void write(const torch::Tensor& tensor) = 0;
  virtual void commit() = 0;

 protected:
  Sink() = default;
};

enum class Existing { Refuse, Replace };

// How a folder in Hugging Face's format is written.
struct HuggingFaceFolder {
  int64_t most_bytes = 5'000'000'000;  // of tensors in a file, where one tensor alone is not larger
  std::string config = {};             // config.json, which transformers makes the model from; empty: there is none
};

// With the format's own, of those below. `folder` is for HuggingFace alone.
std::unique_ptr<Sink> make_sink(const std::filesystem::path& target, Format format, Announced announced,
                                Existing existing, const HuggingFaceFolder& folder);

// All throw Error, naming the target, where it cannot be written, and with Existing::Refuse where it is there already.
// A folder that holds anything else than files of its format is never replaced.
std::unique_ptr<Sink> write_checkpoint(const std::filesystem::path& target, Announced announced, Existing existing);
// Without states.
std::unique_ptr<Sink> write_hugging_face(const std::filesystem::path& target, const Announced& announced,
                                         Existing existing, const HuggingFaceFolder& folder);
std::unique_ptr<Sink> write_torch_file(const std::filesystem::path& target, const Announced& announced,
                                       Existing existing);
// Holds all tensors until it is committed. Without states.
std::unique_ptr<Sink> write_archive(const std::filesystem::path& target, Announced announced, Existing existing);
std::unique_ptr<Sink> write_distributed(const std::filesystem::path& target, Announced announced, Existing existing);

}  // namespace fsdp::formats
