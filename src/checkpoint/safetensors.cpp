#include "checkpoint/safetensors.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "files/json.h"
#include "files/printable.h"

namespace fsdp::checkpoint {

namespace {

using files::Json;
using files::printable;

constexpr int64_t kLongestHeader = 100'000'000;  // as the reference implementation
constexpr int64_t kLengthBytes = 8;
constexpr uint64_t kLargestNumber = uint64_t{1} << 62;

struct Dtype {
  const char* name;
  torch::ScalarType type;
};
constexpr Dtype kDtypes[] = {{"F64", torch::kFloat64},   {"F32", torch::kFloat32}, {"F16", torch::kFloat16},
                             {"BF16", torch::kBFloat16}, {"I64", torch::kInt64},   {"I32", torch::kInt32},
                             {"I16", torch::kInt16},     {"I8", torch::kInt8},     {"U8", torch::kUInt8},
                             {"BOOL", torch::kBool}};

std::string name_of(torch::ScalarType type) {
  for (const Dtype& dtype : kDtypes) {
    if (dtype.type == type) return dtype.name;
  }
  throw_error(message_prefix() + fmt::format("safetensors has no dtype for {}", toString(type)));
}

using Entry = SafetensorsFile::Entry;

std::string dump_for_message(const Json& value) {
  constexpr size_t kShown = 100;
  return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace)).substr(0, kShown);
}

// `what` of the tensor, as a number that fits.
int64_t whole_number(const std::string& file, const std::string& name, const char* what, const Json& value) {
  FSDP_CHECK(value.is_number_unsigned() && value.get<uint64_t>() <= kLargestNumber,
             "{}: tensor {} has a {} of {}, expected a whole number up to 2^62", file, printable(name), what,
             dump_for_message(value));
  return value.get<int64_t>();
}

// Bytes of a tensor of these sizes, whose partial products, the strides, fit as well.
int64_t bytes_of(const std::string& file, const Entry& entry) {
  auto bytes = static_cast<int64_t>(c10::elementSize(entry.type));
  bool empty = false;
  try {
    for (int64_t size : entry.shape) {
      empty = empty || size == 0;
      bytes = checked_mul(bytes, std::max<int64_t>(size, 1));
    }
  } catch (const Error&) {
    FSDP_CHECK(false, "{}: tensor {} has the shape {}, more elements than memory can hold", file, printable(entry.name),
               entry.shape);
  }
  return empty ? 0 : bytes;
}

Entry parse_entry(const std::string& file, const std::string& name, const Json& value) {
  Entry entry{.name = name, .type = torch::kFloat32, .shape = {}, .begin = 0, .end = 0};
  const auto dtype = value.at("dtype").get<std::string>();
  const auto known =
      std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const Dtype& d) { return dtype == d.name; });
  FSDP_CHECK(known != std::end(kDtypes), "{}: tensor {} has the unknown dtype '{}'", file, printable(name),
             printable(dtype));
  entry.type = known->type;
  const Json& shape = value.at("shape");
  FSDP_CHECK(shape.is_array(), "{}: tensor {} has a shape that is not a list", file, printable(name));
  for (const Json& size : shape) entry.shape.push_back(whole_number(file, name, "size", size));
  const Json& offsets = value.at("data_offsets");
  FSDP_CHECK(offsets.is_array() && offsets.size() == 2, "{}: tensor {} has data_offsets that are not two numbers", file,
             printable(name));
  entry.begin = whole_number(file, name, "data offset", offsets[0]);
  entry.end = whole_number(file, name, "data offset", offsets[1]);
  const int64_t bytes = bytes_of(file, entry);
  FSDP_CHECK(entry.begin <= entry.end && entry.end - entry.begin == bytes,
             "{}: tensor {} lies from byte {} to {}, its shape and dtype need {} bytes", file, printable(name),
             entry.begin, entry.end, bytes);
  return entry;
}

Json parse_header(const std::string& file, const std::string& text) {
  FSDP_CHECK(text.find('\0') == std::string::npos, "{}: the header is damaged: it holds a zero byte", file);
  Json header = files::parse_json(text, file + ": the header");
  FSDP_CHECK(header.is_object(), "{}: the header is not a JSON object", file);
  return header;
}

std::string dump(const std::string& file, const files::OrderedJson& header) {
  try {
    return header.dump();
  } catch (const nlohmann::json::exception& error) {
    throw_error(message_prefix() + fmt::format("{}: a name is not UTF-8: {}", file, error.what()));
  }
}

// Padded to a multiple of 8 bytes.
std::string header_of(const std::string& file, const std::vector<SafetensorsWriter::Announced>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  files::OrderedJson header = files::OrderedJson::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const auto& [name, type, shape] : tensors) {
    FSDP_CHECK(!header.contains(name), "{}: two tensors have the name {}", file, name);
    const auto end = offset + c10::multiply_integers(shape) * static_cast<int64_t>(c10::elementSize(type));
    header[name] = {{"dtype", name_of(type)}, {"shape", shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = dump(file, header);
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

// In the order of their bytes, which leave no hole and end where the file ends.
std::vector<Entry> parse_entries(const std::string& file, const std::string& text, int64_t data_bytes) {
  std::vector<Entry> entries;
  try {
    const Json header = parse_header(file, text);
    for (const auto& [name, value] : header.items()) {
      if (name != "__metadata__") entries.push_back(parse_entry(file, name, value));
    }
  } catch (const nlohmann::json::exception& error) {
    throw_error(message_prefix() + fmt::format("{}: the header is damaged: {}", file, printable(error.what())));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  int64_t end = 0;
  for (const Entry& entry : entries) {
    FSDP_CHECK(entry.begin == end, "{}: tensor {} starts at byte {}, expected {}", file, printable(entry.name),
               entry.begin, end);
    end = entry.end;
  }
  FSDP_CHECK(end == data_bytes, "{}: found {} bytes of tensors, the header announces {}. Is the file cut off?", file,
             data_bytes, end);
  return entries;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(files::DurableFile& file, const std::string& name,
                                     const std::vector<Announced>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(file) {
  const std::string header = header_of(name, tensors, metadata);
  const uint64_t length = header.size();
  append(&length, kLengthBytes);
  append(header.data(), header.size());
}

void SafetensorsWriter::append(const void* bytes, size_t size) {
  file_.append(bytes, size);
  hash_.add(bytes, size);
}

void SafetensorsWriter::write(const torch::Tensor& tensor) {
  const torch::Tensor contiguous = tensor.detach().cpu().contiguous();
  append(contiguous.const_data_ptr(), contiguous.nbytes());
}

WrittenFile write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                              const std::map<std::string, std::string>& metadata) {
  NamedTensors sorted = tensors;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.element_size() > b.second.element_size(); });
  std::vector<SafetensorsWriter::Announced> announced;
  for (const auto& [name, tensor] : sorted) announced.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  files::DurableFile file(path);
  SafetensorsWriter out(file, path.string(), announced, metadata);
  for (const auto& named : sorted) out.write(named.second);
  file.close();
  return {file.bytes(), out.hash()};
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : name_(path.string()), file_(files::open_regular(path, name_)) {
  uint64_t length = 0;
  if (file_.bytes >= kLengthBytes) read_bytes(0, &length, kLengthBytes);
  FSDP_CHECK(file_.bytes >= kLengthBytes && length <= kLongestHeader &&
                 static_cast<int64_t>(length) <= file_.bytes - kLengthBytes,
             "{}: not a safetensors file: its {} bytes cannot hold the header it announces", name_, file_.bytes);
  std::string text(length, '\0');
  read_bytes(kLengthBytes, text.data(), static_cast<int64_t>(length));
  data_begin_ = kLengthBytes + static_cast<int64_t>(length);
  entries_ = parse_entries(name_, text, file_.bytes - data_begin_);
}

void SafetensorsFile::read_bytes(int64_t offset, void* into, int64_t size) const {
  files::read_exactly(file_, offset, into, static_cast<size_t>(size), name_);
}

torch::Tensor SafetensorsFile::read(const Entry& entry) const {
  torch::Tensor tensor = torch::empty(entry.shape, entry.type);
  read_bytes(data_begin_ + entry.begin, tensor.mutable_data_ptr(), entry.end - entry.begin);
  return tensor;
}

torch::Tensor SafetensorsFile::read(const Entry& entry, int64_t first, int64_t numel) const {
  const auto width = static_cast<int64_t>(c10::elementSize(entry.type));
  FSDP_INVARIANT(first >= 0 && numel >= 0 && numel <= (entry.end - entry.begin) / width - first,
                 "elements from {} on, {} of them, of {} in {}", first, numel, entry.name, name_);
  torch::Tensor tensor = torch::empty({numel}, entry.type);
  read_bytes(data_begin_ + entry.begin + first * width, tensor.mutable_data_ptr(), numel * width);
  return tensor;
}

std::pair<std::vector<torch::Tensor>, std::string> SafetensorsFile::read_with_hash(
    const std::vector<const Entry*>& wanted) const {
  constexpr int64_t kPieceBytes = 256 << 10;  // hashed while it is in the cache
  files::ContentHash hash;
  std::vector<char> passed_over(kPieceBytes);
  const auto read_piece = [&](int64_t offset, char* into, int64_t size) {
    read_bytes(offset, into, size);
    hash.add(into, static_cast<size_t>(size));
  };
  std::map<const Entry*, torch::Tensor> tensors;
  for (const Entry* entry : wanted) tensors.try_emplace(entry, torch::empty(entry->shape, entry->type));
  const auto read_range = [&](int64_t begin, int64_t end, char* into) {
    for (int64_t at = begin; at < end; at += kPieceBytes) {
      const int64_t size = std::min(kPieceBytes, end - at);
      read_piece(at, into ? into + (at - begin) : passed_over.data(), size);
    }
  };
  read_range(0, data_begin_, nullptr);
  for (const Entry& entry : entries_) {
    const auto found = tensors.find(&entry);
    char* into = found == tensors.end() ? nullptr : static_cast<char*>(found->second.mutable_data_ptr());
    read_range(data_begin_ + entry.begin, data_begin_ + entry.end, into);
  }
  std::vector<torch::Tensor> in_order;
  for (const Entry* entry : wanted) in_order.push_back(tensors.at(entry));
  return {std::move(in_order), hash.hexadecimal()};
}

std::map<std::string, torch::Tensor> read_safetensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::map<std::string, torch::Tensor> tensors;
  for (const Entry& entry : file.entries()) tensors.emplace(entry.name, file.read(entry));
  return tensors;
}

}  // namespace fsdp::checkpoint
