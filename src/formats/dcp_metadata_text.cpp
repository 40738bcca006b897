#include "formats/dcp_metadata.h"
#include "formats/element_types.h"
#include "formats/pickle_writer.h"

namespace fsdp::formats {

namespace {

constexpr const char *kMetadataModule = "torch.distributed.checkpoint.metadata",
                     *kFilesModule = "torch.distributed.checkpoint.filesystem";

// Objects of the dataclasses, attribute by attribute.
class MetadataWriter {
 public:
  std::string text(const DcpMetadata& metadata) {
    begin(kMetadataModule, "Metadata");
    attribute("state_dict_metadata", [&] { state(metadata); });
    attribute("planner_data", [&] { paths(metadata); });
    attribute("storage_data", [&] { places(metadata); });
    attribute("storage_meta", [&] { out_.none(); });
    attribute("version", [&] { out_.text("1.0.0"); });
    out_.build();
    return out_.finish();
  }

 private:
  // An object and the dict of its attributes, which build() sets on it.
  void begin(const char* module, const char* name) {
    out_.global(module, name);
    out_.empty_tuple();
    out_.make();
    out_.empty_dict();
  }
  template <typename Value>
  void attribute(std::string_view name, const Value& append_value) {
    out_.text(name);
    append_value();
    out_.set_item();
  }

  void size(const std::vector<int64_t>& numbers) {
    out_.global("torch", "Size");
    out_.mark();
    out_.numbers(numbers);
    out_.tuple();
    out_.call();
  }

  void state(const DcpMetadata& metadata) {
    out_.empty_dict();
    for (const auto& tensor : metadata.tensors) {
      out_.text(tensor.name);
      begin(kMetadataModule, "TensorStorageMetadata");
      attribute("properties", [&] { properties(tensor.type); });
      attribute("size", [&] { size(tensor.shape); });
      attribute("chunks", [&] { chunk(tensor.chunks.at(0)); });
      out_.build();
      out_.set_item();
    }
  }

  // Readers look only at the dtype.
  void properties(torch::ScalarType type) {
    out_.global(kMetadataModule, "TensorProperties");
    out_.empty_tuple();
    out_.make();
    out_.mark();
    out_.global("torch", names_of(type).dtype);
    out_.global("torch.serialization", "_get_layout");
    out_.mark();
    out_.text("torch.strided");
    out_.tuple();
    out_.call();
    out_.boolean(false);  // requires_grad
    out_.global(kMetadataModule, "_MEM_FORMAT_ENCODING");
    out_.mark();
    out_.number(0);  // contiguous
    out_.tuple();
    out_.call();
    out_.boolean(false);  // pin_memory
    out_.tuple();
    out_.build();
  }

  void chunk(const DcpMetadata::Chunk& chunk) {
    out_.empty_list();
    begin(kMetadataModule, "ChunkStorageMetadata");
    attribute("offsets", [&] { size(chunk.offsets); });
    attribute("sizes", [&] { size(chunk.sizes); });
    out_.build();
    out_.append();
  }

  void paths(const DcpMetadata& metadata) {
    out_.empty_dict();
    for (const auto& tensor : metadata.tensors) {
      out_.text(tensor.name);
      out_.mark();
      for (const std::string& key : tensor.path) out_.text(key);
      out_.tuple();
      out_.set_item();
    }
  }

  void places(const DcpMetadata& metadata) {
    out_.empty_dict();
    for (const auto& tensor : metadata.tensors) {
      const DcpMetadata::Chunk& chunk = tensor.chunks.at(0);
      begin(kMetadataModule, "MetadataIndex");
      attribute("fqn", [&] { out_.text(tensor.name); });
      attribute("offset", [&] { size(chunk.offsets); });
      attribute("index", [&] { out_.number(0); });
      out_.build();
      begin(kFilesModule, "_StorageInfo");
      attribute("relative_path", [&] { out_.text(chunk.file); });
      attribute("offset", [&] { out_.number(chunk.begin); });
      attribute("length", [&] { out_.number(chunk.bytes); });
      out_.build();
      out_.set_item();
    }
  }

  PickleWriter out_;
};

}  // namespace

std::string dcp_metadata_text(const DcpMetadata& metadata) { return MetadataWriter().text(metadata); }

}  // namespace fsdp::formats
