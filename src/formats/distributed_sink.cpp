// A distributed checkpoint of PyTorch's, as one rank of Python would save it: {"model": ..., "optim": ..., "step":
// ...}.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "formats/dcp_metadata.h"
#include "formats/new_file.h"
#include "formats/sink.h"
#include "formats/torch_file_writer.h"

namespace fsdp::formats {

namespace {

constexpr const char* kDataName = "__0_0.distcp";

bool is_distributed_file(const std::string& name) { return name == kDcpMetadataName || name.ends_with(".distcp"); }

class DistributedSink : public Sink {
 public:
  DistributedSink(const std::filesystem::path& target, Announced announced, Existing existing)
      : folder_(target, existing, is_distributed_file),
        file_(folder_.path() / kDataName),
        announced_(std::move(announced)) {}

  void write(const torch::Tensor& tensor) override {
    const StoredTensor& stored = announced_.tensors.at(next_++);
    append(path_in_state(stored.name, "optim"), tensor);
  }

  void commit() override {
    append({"step"}, torch::tensor(announced_.facts.step, torch::kInt64));
    file_.close();
    files::DurableFile metadata(folder_.path() / kDcpMetadataName);
    metadata.append(dcp_metadata_text(metadata_));
    metadata.close();
    folder_.commit();
  }

 private:
  void append(const StatePath& path, const torch::Tensor& tensor) {
    const int64_t begin = file_.bytes();
    TorchFileWriter writer(file_, {{.path = {}, .type = tensor.scalar_type(), .shape = tensor.sizes().vec()}}, {});
    writer.write(tensor);
    writer.finish();
    DcpMetadata::Chunk chunk{std::vector<int64_t>(tensor.sizes().size(), 0), tensor.sizes().vec(), kDataName, begin,
                             file_.bytes() - begin};
    metadata_.tensors.push_back({fmt::format("{}", fmt::join(path, ".")),
                                 path,
                                 tensor.scalar_type(),
                                 tensor.sizes().vec(),
                                 {std::move(chunk)}});
  }

  NewFolder folder_;
  files::DurableFile file_;
  Announced announced_;
  DcpMetadata metadata_;
  size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Sink> write_distributed(const std::filesystem::path& target, Announced announced, Existing existing) {
  return std::make_unique<DistributedSink>(target, std::move(announced), existing);
}

}  // namespace fsdp::formats
