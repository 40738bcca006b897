#include "formats/torch_file.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "files/printable.h"
#include "formats/crc32.h"
#include "formats/element_types.h"

namespace fsdp::formats {

namespace {

constexpr size_t kDeepestState = 64;
constexpr size_t kMostVisited = size_t{1} << 22;    // values, as a dict may lie in many places
constexpr size_t kMostNameBytes = size_t{1} << 28;  // of all tensors together
constexpr std::string_view kPickleName = "/data.pkl";

// The folder of the entries: PyTorch calls it as the file was called.
std::string prefix_in(const ZipReader& zip) {
  for (const auto& [name, entry] : zip.entries()) {
    const size_t slash = name.find('/');
    if (slash != std::string::npos && std::string_view(name).substr(slash) == kPickleName) {
      return name.substr(0, slash + 1);
    }
  }
  FSDP_CHECK(false, "{} is a zip file, but none of torch.save or torch::serialize: it has no data.pkl", zip.name());
  return {};
}

bool has_code(const ZipReader& zip, const std::string& prefix) {
  const auto code = zip.entries().lower_bound(prefix + "code/");
  return zip.entries().contains(prefix + "constants.pkl") ||
         (code != zip.entries().end() && code->first.starts_with(prefix + "code/"));
}

void check_byte_order(const ZipReader& zip, const std::string& prefix) {
  const std::string entry = prefix + "byteorder";
  if (!zip.entries().contains(entry)) return;
  const std::string order = zip.read(entry, 64);
  FSDP_CHECK(order == "little", "{} was written on a machine of another byte order: found {}, expected little",
             zip.name(), files::printable(order));
}

std::string shown_path(const std::vector<std::string>& path) {
  return path.empty() ? "the tensor" : files::printable(fmt::format("{}", fmt::join(path, ".")));
}

bool begins_with(const files::OpenFile& file, std::string_view bytes) {
  std::string found(bytes.size(), '\0');
  if (file.bytes < static_cast<int64_t>(found.size())) return false;
  files::read_exactly(file, 0, found.data(), found.size(), "the file");
  return found == bytes;
}

}  // namespace

TorchFile::TorchFile(const files::OpenFile& file, int64_t begin, int64_t bytes, const std::string& name)
    : file_(file), name_(name), zip_(file, begin, bytes, name), prefix_(prefix_in(zip_)) {
  check_byte_order(zip_, prefix_);
  is_archive_ = has_code(zip_, prefix_);
  const std::string entry = prefix_ + "data.pkl";
  const Pickle pickle = Pickle::read(zip_.read(entry, kMostPickleBytes), name, is_allowed_in_state);
  std::vector<std::string> path;
  walk(pickle, pickle.root_id(), path);
}

void TorchFile::walk(const Pickle& pickle, Pickle::Id id, std::vector<std::string>& path) {
  FSDP_CHECK(path.size() <= kDeepestState, "{}: its dicts nest deeper than {} levels", name_, kDeepestState);
  count_visited(1);
  const Pickle::Value& value = pickle.at(id);
  if (auto layout = pickled_tensor(pickle, value, name_)) return add(path, std::move(*layout));
  using Kind = Pickle::Kind;
  switch (value.kind) {
    case Kind::Dict:
    case Kind::List:
    case Kind::Tuple:
      return walk_items(pickle, value, path);
    case Kind::Call:
      // A module is what was set on it: its attributes by name.
      if (is_module_class(pickle.called(value)) && value.items.size() == 3) {
        return walk_items(pickle, pickle.at(value.items[2]), path);
      }
      break;
    case Kind::Int:
      if (path.size() == 1) numbers_[path[0]] = value.number;
      break;
    default:
      break;
  }
  ++others_;
}

void TorchFile::walk_items(const Pickle& pickle, const Pickle::Value& value, std::vector<std::string>& path) {
  const bool is_dict = value.kind == Pickle::Kind::Dict;
  if (!path.empty() && path.back() == "param_groups" && !is_dict) read_groups(pickle, value, path);
  const size_t each = is_dict ? 2 : 1;
  for (size_t i = 0; i < value.items.size(); i += each) {
    const Pickle::Value& key = pickle.at(value.items[i]);
    const bool is_text = key.kind == Pickle::Kind::Text, is_number = key.kind == Pickle::Kind::Int;
    if (is_dict && !is_text && !is_number) {
      ++others_;
      continue;
    }
    path.push_back(!is_dict ? std::to_string(i) : is_text ? std::string(key.text) : std::to_string(key.number));
    walk(pickle, value.items[i + each - 1], path);
    path.pop_back();
  }
}

// [{"params": [0, 1], "param_names": ["a", "b"], "lr": ...}, ...]
void TorchFile::read_groups(const Pickle& pickle, const Pickle::Value& list, const std::vector<std::string>& path) {
  std::vector<ParameterGroup>& groups = groups_[{path.begin(), path.end() - 1}];
  for (const std::string& part : path) count_name_bytes(part.size());
  const auto items = [&](const Pickle::Value& group, std::string_view key) -> std::span<const Pickle::Id> {
    const auto found = pickle.find(group, key);
    if (!found || pickle.at(*found).kind != Pickle::Kind::List) return {};
    count_visited(pickle.at(*found).items.size());
    return pickle.at(*found).items;
  };
  for (const Pickle::Id id : list.items) {
    const Pickle::Value& group = pickle.at(id);
    ParameterGroup& read = groups.emplace_back();
    for (const Pickle::Id number : items(group, "params")) read.numbers.push_back(pickle.at(number).number);
    for (const Pickle::Id name : items(group, "param_names")) {
      count_name_bytes(pickle.at(name).text.size());
      read.names.emplace_back(pickle.at(name).text);
    }
  }
}

std::vector<ParameterGroup> TorchFile::parameter_groups(const std::vector<std::string>& optimizer) const {
  const auto found = groups_.find(optimizer);
  return found == groups_.end() ? std::vector<ParameterGroup>() : found->second;
}

void TorchFile::count_visited(size_t values) {
  visited_ += values;
  FSDP_CHECK(visited_ <= kMostVisited, "{}: its dicts and lists hold more than {} values", name_, kMostVisited);
}

// A text of the file may be named in many places.
void TorchFile::count_name_bytes(size_t bytes) {
  name_bytes_ += bytes;
  FSDP_CHECK(name_bytes_ <= kMostNameBytes, "{}: its tensors have names of more than {} bytes", name_, kMostNameBytes);
}

void TorchFile::add(const std::vector<std::string>& path, PickledTensor layout) {
  for (const std::string& part : path) count_name_bytes(part.size());
  const std::string entry = prefix_ + "data/" + layout.storage;
  const auto found = zip_.entries().find(entry);
  FSDP_CHECK(found != zip_.entries().end(), "{} is damaged: {} lies in {}, which is missing", name_, shown_path(path),
             files::printable(entry));
  const int64_t expected = *bytes_of(layout.type, {layout.storage_numel});
  FSDP_CHECK(found->second.bytes == expected, "{} is damaged: found {} bytes in {}, its pickle says {}", name_,
             found->second.bytes, files::printable(entry), expected);
  tensors_.push_back({path, std::move(layout)});
}

void TorchFile::check_checksum(const std::string& entry) const {
  if (checked_.contains(entry)) return;
  constexpr int64_t kBlock = int64_t{1} << 20;
  const ZipReader::Entry& expected = zip_.entries().at(entry);
  std::string block;
  uint32_t crc = 0;
  for (int64_t at = 0; at < expected.bytes; at += kBlock) {
    block.resize(static_cast<size_t>(std::min(kBlock, expected.bytes - at)));
    files::read_exactly(file_, zip_.data_of(entry) + at, block.data(), block.size(), name_);
    crc = crc32(crc, block.data(), block.size());
  }
  FSDP_CHECK(crc == expected.crc, "{} is damaged: the checksum of {} is wrong", name_, files::printable(entry));
  checked_.insert(entry);
}

torch::Tensor TorchFile::read(const Tensor& tensor) const {
  const PickledTensor& layout = tensor.layout;
  const std::string entry = prefix_ + "data/" + layout.storage;
  check_checksum(entry);
  const auto width = static_cast<int64_t>(c10::elementSize(layout.type));
  const torch::Tensor stored = torch::empty({layout.span()}, layout.type);
  files::read_exactly(file_, zip_.data_of(entry) + layout.offset * width, stored.mutable_data_ptr(), stored.nbytes(),
                      name_);
  if (layout.numel() == 0) return torch::empty(layout.shape, layout.type);
  if (layout.is_contiguous()) return stored.view(layout.shape);
  return stored.as_strided(layout.shape, layout.strides).contiguous();
}

bool is_plain_pickle(const files::OpenFile& file) { return begins_with(file, "\x80"); }
bool is_zip(const files::OpenFile& file) { return begins_with(file, "PK\x03\x04"); }

}  // namespace fsdp::formats
