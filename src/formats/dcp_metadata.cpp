#include "formats/dcp_metadata.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "files/printable.h"
#include "files/reading.h"
#include "formats/element_types.h"
#include "formats/pickle_reader.h"
#include "formats/pickled_tensor.h"

namespace fsdp::formats {

namespace {

using Kind = Pickle::Kind;
using Value = Pickle::Value;

constexpr std::string_view kMetadata = "torch.distributed.checkpoint.metadata.Metadata",
                           kTensorMetadata = "torch.distributed.checkpoint.metadata.TensorStorageMetadata",
                           kBytesMetadata = "torch.distributed.checkpoint.metadata.BytesStorageMetadata",
                           kChunkMetadata = "torch.distributed.checkpoint.metadata.ChunkStorageMetadata",
                           kIndex = "torch.distributed.checkpoint.metadata.MetadataIndex",
                           kStorageInfo = "torch.distributed.checkpoint.filesystem._StorageInfo";

// Beside dtypes. Names of older and newer versions of PyTorch and of Python.
constexpr std::array<std::string_view, 21> kAllowedInMetadata = {
    kMetadata,
    kTensorMetadata,
    kBytesMetadata,
    kChunkMetadata,
    kIndex,
    kStorageInfo,
    "torch.distributed.checkpoint.metadata.StorageMeta",
    "torch.distributed.checkpoint.metadata.TensorProperties",
    "torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING",
    "torch.distributed._shard.sharded_tensor.metadata.TensorProperties",
    "torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING",
    "torch.Size",
    "torch.serialization._get_layout",
    "collections.OrderedDict",
    "pathlib.PosixPath",
    "pathlib.WindowsPath",
    "pathlib.Path",
    "pathlib._local.PosixPath",
    "pathlib._local.WindowsPath",
    "builtins.getattr",  // of a member of an enumeration, by Python 3.11
    "__builtin__.getattr"};

bool is_allowed_in_metadata(std::string_view global) {
  return std::ranges::find(kAllowedInMetadata, global) != kAllowedInMetadata.end() || type_of_dtype(global);
}

bool is_bare_file_name(std::string_view name) {
  const auto leads_elsewhere = [](char c) { return c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' '; };
  return !name.empty() && name != "." && name != ".." && std::ranges::none_of(name, leads_elsewhere);
}

using ChunkKey = std::pair<std::string_view, std::vector<int64_t>>;  // a tensor's name and offsets

class MetadataReader {
 public:
  MetadataReader(const Pickle& pickle, const std::string& name) : pickle_(pickle), name_(name) {}

  DcpMetadata read() {
    const Value& root = pickle_.root();
    check(pickle_.called(root) == kMetadata, "it is of something else than a checkpoint");
    read_places(member(root, "storage_data"));
    read_paths(optional_member(root, "planner_data"));
    const Value& tensors = member(root, "state_dict_metadata");
    check(tensors.kind == Kind::Dict, "it does not name its tensors");
    for (size_t i = 0; i < tensors.items.size(); i += 2) add(text(tensors.items[i]), at(tensors.items[i + 1]));
    return std::move(result_);
  }

 private:
  struct Place {
    std::string_view file;
    int64_t begin = 0, bytes = 0;
    bool is_changed = false;  // compressed, for one
  };

  void check(bool condition, const char* what) const { FSDP_CHECK(condition, "{} is damaged: {}", name_, what); }

  const Value& at(Pickle::Id id) const { return pickle_.at(id); }

  std::string_view text(Pickle::Id id) const {
    check(at(id).kind == Kind::Text, "found something else where a name belongs");
    return at(id).text;
  }

  int64_t whole(const Value& value) const {
    check(value.kind == Kind::Int && value.number >= 0, "found something else where a number belongs");
    return value.number;
  }

  // An attribute of a dataclass; null where it has none of that name.
  const Value* attribute(const Value& object, std::string_view name) const {
    if (object.kind != Kind::Call || object.items.size() < 3) return nullptr;
    const auto found = pickle_.find(at(object.items[2]), name);
    return found ? &at(*found) : nullptr;
  }
  const Value& member(const Value& object, std::string_view name) const {
    const Value* found = attribute(object, name);
    FSDP_CHECK(found != nullptr, "{} is damaged: an object of it has no {}", name_, name);
    return *found;
  }
  const Value& optional_member(const Value& object, std::string_view name) const {
    static const Value none;
    const Value* found = attribute(object, name);
    return found != nullptr ? *found : none;
  }

  std::vector<int64_t> numbers(const Value& value) const { return numbers_in(pickle_, value, name_); }

  void read_places(const Value& places) {
    check(places.kind == Kind::Dict, "it does not say where its chunks lie");
    for (size_t i = 0; i < places.items.size(); i += 2) {
      const Value &index = at(places.items[i]), &info = at(places.items[i + 1]);
      check(pickle_.called(index) == kIndex && pickle_.called(info) == kStorageInfo,
            "it does not say where its chunks lie");
      const Value& name = member(index, "fqn");
      const Value& offset = optional_member(index, "offset");
      if (offset.kind == Kind::None) continue;  // of bytes
      check(name.kind == Kind::Text, "found something else where a name belongs");
      const Value& file = member(info, "relative_path");
      FSDP_CHECK(file.kind == Kind::Text && is_bare_file_name(file.text),
                 "{} is damaged: it names the file '{}', expected the bare name of one beside it", name_,
                 files::printable(file.text));
      const Place place{file.text, whole(member(info, "offset")), whole(member(info, "length")),
                        !optional_member(info, "transform_descriptors").items.empty()};
      check(places_.emplace(ChunkKey(name.text, numbers(offset)), place).second, "it has a chunk twice");
    }
    check_apart();
  }

  // No two chunks in the same bytes: a little file would become a large tensor.
  void check_apart() const {
    std::vector<std::tuple<std::string_view, int64_t, int64_t>> ranges;
    for (const auto& [key, place] : places_) {
      ranges.emplace_back(place.file, place.begin, checked_add(place.begin, place.bytes));
    }
    std::ranges::sort(ranges);
    for (size_t i = 1; i < ranges.size(); ++i) {
      const auto& [file, begin, end] = ranges[i];
      check(file != std::get<0>(ranges[i - 1]) || begin >= std::get<2>(ranges[i - 1]),
            "two chunks lie in the same bytes");
    }
  }

  void read_paths(const Value& paths) {
    if (paths.kind != Kind::Dict) return;
    for (size_t i = 0; i < paths.items.size(); i += 2) {
      const Value& keys = at(paths.items[i + 1]);
      if (keys.kind != Kind::Tuple) return;
      StatePath path;
      for (const Pickle::Id id : keys.items) {
        const Value& key = at(id);
        path.push_back(key.kind == Kind::Int ? std::to_string(key.number) : std::string(key.text));
      }
      paths_.emplace(text(paths.items[i]), std::move(path));
    }
  }

  void add(std::string_view name, const Value& value) {
    if (pickle_.called(value) == kBytesMetadata) {
      ++result_.others;
      return;
    }
    check(pickle_.called(value) == kTensorMetadata, "it has something that is neither a tensor nor bytes");
    DcpMetadata::Tensor tensor{.name = std::string(name), .path = {}};
    const auto path = paths_.find(name);
    if (path != paths_.end()) tensor.path = path->second;
    tensor.type = type_of(name, member(value, "properties"));
    tensor.shape = numbers(member(value, "size"));
    check(bytes_of(tensor.type, tensor.shape).has_value(), "a tensor has more elements than memory can hold");
    const Value& chunks = member(value, "chunks");
    check(chunks.kind == Kind::List, "a tensor has no chunks");
    for (const Pickle::Id id : chunks.items) add_chunk(tensor, at(id));
    check_whole(tensor);
    result_.tensors.push_back(std::move(tensor));
  }

  torch::ScalarType type_of(std::string_view name, const Value& properties) const {
    check(properties.kind == Kind::Call && properties.items.size() == 3, "a tensor has no properties");
    const Value& state = at(properties.items[2]);
    check(state.kind == Kind::Tuple && !state.items.empty(), "a tensor has no dtype");
    const auto type = type_of_dtype(at(state.items[0]).text);
    FSDP_CHECK(type, "{}: {} has the dtype {}, which is not read here", name_, files::printable(name),
               files::printable(at(state.items[0]).text));
    return *type;
  }

  void add_chunk(DcpMetadata::Tensor& tensor, const Value& value) {
    DcpMetadata::Chunk chunk{numbers(member(value, "offsets")), numbers(member(value, "sizes"))};
    const size_t dims = tensor.shape.size();
    bool is_within = chunk.offsets.size() == dims && chunk.sizes.size() == dims;
    for (size_t i = 0; is_within && i < dims; ++i) {
      is_within = chunk.offsets[i] <= tensor.shape[i] && chunk.sizes[i] <= tensor.shape[i] - chunk.offsets[i];
    }
    FSDP_CHECK(is_within, "{} is damaged: a chunk of {} with offsets {} and sizes {} is not in its shape {}", name_,
               files::printable(tensor.name), chunk.offsets, chunk.sizes, tensor.shape);
    const auto place = places_.find(ChunkKey(tensor.name, chunk.offsets));
    FSDP_CHECK(place != places_.end(), "{} is damaged: it has no place for the chunk of {} at {}", name_,
               files::printable(tensor.name), chunk.offsets);
    FSDP_CHECK(!place->second.is_changed, "{}: {} is stored in a changed form (compressed?), which is not read here",
               name_, files::printable(tensor.name));
    chunk.file = std::string(place->second.file);
    chunk.begin = place->second.begin;
    chunk.bytes = place->second.bytes;
    check(bytes_of(tensor.type, chunk.sizes).value() <= chunk.bytes, "a chunk has more elements than are stored");
    tensor.chunks.push_back(std::move(chunk));
  }

  // Boxes that lie within the tensor, do not overlap, and have as many elements together.
  void check_whole(const DcpMetadata::Tensor& tensor) const {
    constexpr size_t kMostChunks = size_t{1} << 14;  // each is compared with each
    FSDP_CHECK(tensor.chunks.size() <= kMostChunks, "{}: {} is cut into {} chunks, expected at most {}", name_,
               files::printable(tensor.name), tensor.chunks.size(), kMostChunks);
    int64_t left = bytes_of(tensor.type, tensor.shape).value();
    for (size_t i = 0; i < tensor.chunks.size(); ++i) {
      const int64_t bytes = bytes_of(tensor.type, tensor.chunks[i].sizes).value();
      left = bytes > left ? -1 : left - bytes;
      for (size_t j = 0; j < i && left >= 0; ++j) {
        if (overlap(tensor.chunks[i], tensor.chunks[j])) left = -1;
      }
      if (left < 0) break;
    }
    FSDP_CHECK(left == 0, "{} is damaged: the chunks of {} do not make up its shape {}", name_,
               files::printable(tensor.name), tensor.shape);
  }

  static bool overlap(const DcpMetadata::Chunk& a, const DcpMetadata::Chunk& b) {
    for (size_t i = 0; i < a.sizes.size(); ++i) {
      if (a.offsets[i] + a.sizes[i] <= b.offsets[i] || b.offsets[i] + b.sizes[i] <= a.offsets[i]) return false;
    }
    return true;
  }

  const Pickle& pickle_;
  const std::string& name_;
  std::map<ChunkKey, Place> places_;
  std::map<std::string_view, StatePath> paths_;
  DcpMetadata result_;
};

}  // namespace

DcpMetadata parse_dcp_metadata(std::string bytes, const std::string& name) {
  const Pickle pickle = Pickle::read(std::move(bytes), name, is_allowed_in_metadata);
  return MetadataReader(pickle, name).read();
}

DcpMetadata read_dcp_metadata(const std::filesystem::path& folder) {
  const std::string file = (folder / kDcpMetadataName).string();
  return parse_dcp_metadata(files::read_whole(file, file, kMostPickleBytes), file);
}

}  // namespace fsdp::formats
