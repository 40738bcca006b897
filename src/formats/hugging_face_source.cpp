// Folders of Hugging Face's, and single files in the safetensors format.
#include <utility>

#include "checkpoint/pretrained_files.h"
#include "formats/source.h"
#include "formats/state_names.h"

namespace fsdp::formats {

namespace {

class HuggingFaceSource : public Source {
 public:
  HuggingFaceSource(const std::filesystem::path& path, const std::vector<std::string>& buffers)
      : Source(Format::HuggingFace), files_(path) {
    for (const auto& [name, tensor] : files_.tensors()) {
      tensors_.push_back({.name = {Role::Parameter, name}, .type = tensor.entry->type, .shape = tensor.entry->shape});
      places_.push_back(tensor);
    }
    settle_buffers(tensors_, buffers);
  }

  torch::Tensor read(size_t number) override { return places_[number].file->read(*places_[number].entry); }

 private:
  checkpoint::PretrainedFiles files_;
  std::vector<checkpoint::PretrainedFiles::Tensor> places_;
};

}  // namespace

std::unique_ptr<Source> open_hugging_face(const std::filesystem::path& path, const std::vector<std::string>& buffers) {
  return std::make_unique<HuggingFaceSource>(path, buffers);
}

}  // namespace fsdp::formats
