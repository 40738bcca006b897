// A state dict in a file of torch.save.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "formats/new_file.h"
#include "formats/sink.h"
#include "formats/state_names.h"
#include "formats/torch_file_writer.h"

namespace fsdp::formats {

namespace {

class TorchSink : public Sink {
 public:
  TorchSink(const std::filesystem::path& target, const Announced& announced, Existing existing)
      : file_(new_file(target, existing)),
        writer_(file_->file(), tensors_of(announced), has_state(announced) ? numbers_of(announced) : Numbers{}) {}

  void write(const torch::Tensor& tensor) override { writer_.write(tensor); }
  void commit() override {
    writer_.finish();
    file_->commit();
  }

 private:
  using Numbers = std::map<std::string, int64_t>;

  static bool has_state(const Announced& announced) {
    return std::ranges::any_of(announced.tensors, [](const auto& one) { return one.name.role == Role::State; });
  }
  static Numbers numbers_of(const Announced& announced) { return {{"step", announced.facts.step}}; }

  // A model alone is a flat dict.
  static std::vector<TorchFileWriter::Tensor> tensors_of(const Announced& announced) {
    const bool is_nested = has_state(announced);
    std::vector<TorchFileWriter::Tensor> tensors;
    for (const StoredTensor& tensor : announced.tensors) {
      auto path = is_nested ? path_in_state(tensor.name, "optimizer") : StatePath{tensor.name.name};
      tensors.push_back({std::move(path), tensor.type, tensor.shape, tensor.same_as});
    }
    return tensors;
  }

  std::unique_ptr<files::ReplacedFile> file_;
  TorchFileWriter writer_;
};

}  // namespace

std::unique_ptr<Sink> write_torch_file(const std::filesystem::path& target, const Announced& announced,
                                       Existing existing) {
  return std::make_unique<TorchSink>(target, announced, existing);
}

}  // namespace fsdp::formats
