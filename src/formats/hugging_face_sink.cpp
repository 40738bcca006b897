// Folders of Hugging Face's: model.safetensors, or several files and their index; and the model's config.json.
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "checkpoint/pretrained_files.h"
#include "checkpoint/safetensors.h"
#include "files/json.h"
#include "formats/new_file.h"
#include "formats/sink.h"

namespace fsdp::formats {

namespace {

using checkpoint::SafetensorsWriter;

bool is_weight_file(const std::string& name) {
  return name == checkpoint::kIndexName || name.ends_with(".safetensors");
}

constexpr const char* kConfigName = "config.json";

// One that lies there is replaced where there is another.
bool is_weight_or_config_file(const std::string& name) { return name == kConfigName || is_weight_file(name); }

class HuggingFaceSink : public Sink {
 public:
  HuggingFaceSink(const std::filesystem::path& target, const Announced& announced, Existing existing,
                  const HuggingFaceFolder& folder)
      : folder_(target, existing, folder.config.empty() ? is_weight_file : is_weight_or_config_file),
        config_(folder.config),
        files_(divided(announced, folder.most_bytes)) {
    if (files_.empty()) files_.emplace_back();  // a model without tensors is a file without any
    begin();
  }

  void write(const torch::Tensor& tensor) override {
    if (written_ == files_[current_].size()) next_file();
    out_->write(tensor);
    ++written_;
  }

  void commit() override {
    out_->close();
    if (files_.size() > 1) write_index();
    if (!config_.empty()) write_small(kConfigName, config_);
    folder_.commit();
  }

 private:
  using File = std::vector<SafetensorsWriter::Announced>;

  static std::vector<File> divided(const Announced& announced, int64_t most_bytes) {
    std::vector<File> files;
    int64_t bytes = 0;
    for (const StoredTensor& tensor : announced.tensors) {
      FSDP_INVARIANT(tensor.name.role != Role::State, "a state for a folder that holds a model alone");
      if (files.empty() || bytes > most_bytes - tensor.bytes()) {
        files.emplace_back();
        bytes = 0;
      }
      files.back().push_back({tensor.name.name, tensor.type, tensor.shape});
      bytes += tensor.bytes();
    }
    return files;
  }

  std::string file_name(size_t number) const {
    if (files_.size() == 1) return checkpoint::kModelName;
    return fmt::format("model-{:05}-of-{:05}.safetensors", number + 1, files_.size());
  }

  void begin() {
    const std::filesystem::path path = folder_.path() / file_name(current_);
    file_.emplace(path);
    out_.emplace(*file_, path.string(), files_[current_], std::map<std::string, std::string>{{"format", "pt"}});
    written_ = 0;
  }

  void next_file() {
    out_->close();
    ++current_;
    begin();
  }

  void write_index() {
    std::map<std::string, std::string> sorted;
    int64_t bytes = 0;
    for (size_t i = 0; i < files_.size(); ++i) {
      for (const auto& tensor : files_[i]) {
        sorted.emplace(tensor.name, file_name(i));
        bytes += StoredTensor{.type = tensor.type, .shape = tensor.shape}.bytes();
      }
    }
    const files::Json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", sorted}};
    write_small(checkpoint::kIndexName, index.dump(2) + "\n");
  }

  void write_small(const char* name, const std::string& bytes) {
    files::DurableFile file(folder_.path() / name);
    file.append(bytes);
    file.close();
  }

  NewFolder folder_;
  std::string config_;
  std::vector<File> files_;
  size_t current_ = 0, written_ = 0;  // the file, and its tensors so far
  std::optional<files::DurableFile> file_;
  std::optional<SafetensorsWriter> out_;
};

}  // namespace

std::unique_ptr<Sink> write_hugging_face(const std::filesystem::path& target, const Announced& announced,
                                         Existing existing, const HuggingFaceFolder& folder) {
  return std::make_unique<HuggingFaceSink>(target, announced, existing, folder);
}

}  // namespace fsdp::formats
