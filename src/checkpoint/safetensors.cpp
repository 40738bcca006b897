#include "checkpoint/safetensors.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "files/content_hash.h"
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

int64_t bytes_of(const SafetensorsWriter::Announced& tensor) {
  return c10::multiply_integers(tensor.shape) * static_cast<int64_t>(c10::elementSize(tensor.type));
}

// Length and header, which is padded to a multiple of 8 bytes.
std::string beginning_of(const std::string& file, const std::vector<SafetensorsWriter::Announced>& tensors,
                         const std::map<std::string, std::string>& metadata) {
  files::OrderedJson header = files::OrderedJson::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const auto& tensor : tensors) {
    FSDP_CHECK(!header.contains(tensor.name), "{}: two tensors have the name {}", file, tensor.name);
    const int64_t end = offset + bytes_of(tensor);
    header[tensor.name] = {
        {"dtype", dtype_name(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = dump(file, header);
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), kLengthBytes) + text;
}

size_t digits_of_hashes(const std::vector<SafetensorsWriter::Announced>& tensors) {
  int64_t blocks = 0;
  for (const auto& tensor : tensors) blocks += (bytes_of(tensor) + kHashBlockBytes - 1) / kHashBlockBytes;
  return static_cast<size_t>(blocks) * files::kHashDigits;
}

// What of it is texts by name; a file of others may hold anything.
std::map<std::string, std::string> metadata_in(const Json& header) {
  std::map<std::string, std::string> metadata;
  const auto found = header.find("__metadata__");
  if (found == header.end() || !found->is_object()) return metadata;
  for (const auto& [name, value] : found->items()) {
    if (value.is_string()) metadata[name] = value.get<std::string>();
  }
  return metadata;
}

// In the order of their bytes, which leave no hole and end where the file ends.
std::vector<Entry> parse_entries(const std::string& file, const std::string& text, int64_t data_bytes,
                                 std::map<std::string, std::string>& metadata) {
  std::vector<Entry> entries;
  try {
    const Json header = parse_header(file, text);
    metadata = metadata_in(header);
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

std::string dtype_name(torch::ScalarType type) {
  for (const Dtype& dtype : kDtypes) {
    if (dtype.type == type) return dtype.name;
  }
  throw_error(message_prefix() + fmt::format("safetensors has no dtype for {}", toString(type)));
}

SafetensorsWriter::SafetensorsWriter(files::DurableFile& file, const std::string& name,
                                     const std::vector<Announced>& tensors, std::map<std::string, std::string> metadata,
                                     Hashes hashes)
    : file_(file), has_hashes_(hashes == Hashes::InHeader) {
  if (has_hashes_) metadata[kHashesName] = std::string(digits_of_hashes(tensors), '0');
  beginning_ = beginning_of(name, tensors, metadata);
  FSDP_CHECK(static_cast<int64_t>(beginning_.size()) <= kLongestHeader,
             "{}: its header would have {} bytes, expected at most {}. Save on more ranks.", name, beginning_.size(),
             kLongestHeader);
  file_.append(beginning_);
}

void SafetensorsWriter::write(const torch::Tensor& tensor) {
  const torch::Tensor contiguous = tensor.detach().cpu().contiguous();
  const auto* bytes = static_cast<const char*>(contiguous.const_data_ptr());
  const auto size = static_cast<int64_t>(contiguous.nbytes());
  for (int64_t at = 0; at < size; at += kHashBlockBytes) {
    const auto block = static_cast<size_t>(std::min(kHashBlockBytes, size - at));
    if (has_hashes_) hashes_ += files::hash_of(bytes + at, block);
    file_.append(bytes + at, block);
  }
}

WrittenFile SafetensorsWriter::close() {
  if (has_hashes_) {
    const size_t at = beginning_.find(fmt::format("\"{}\":\"", kHashesName)) + std::strlen(kHashesName) + 4;
    FSDP_INVARIANT(beginning_.compare(at + hashes_.size(), 1, "\"") == 0, "the tensors are not those announced");
    beginning_.replace(at, hashes_.size(), hashes_);
    file_.overwrite_beginning(beginning_);
  }
  file_.close();
  return {file_.bytes(), files::hash_of(beginning_.data(), beginning_.size())};
}

WrittenFile write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                              const std::map<std::string, std::string>& metadata, Hashes hashes) {
  NamedTensors sorted = tensors;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.element_size() > b.second.element_size(); });
  std::vector<SafetensorsWriter::Announced> announced;
  for (const auto& [name, tensor] : sorted) announced.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  files::DurableFile file(path);
  SafetensorsWriter out(file, path.string(), announced, metadata, hashes);
  for (const auto& named : sorted) out.write(named.second);
  return out.close();
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, const WrittenFile* saved)
    : name_(path.string()), file_(files::open_regular(path, name_)) {
  FSDP_CHECK(saved == nullptr || file_.bytes == saved->bytes,
             "{} is damaged: found {} bytes, expected {}. {}Use an older checkpoint.", name_, file_.bytes, saved->bytes,
             file_.bytes < saved->bytes ? "Was it cut off? " : "");
  uint64_t length = 0;
  if (file_.bytes >= kLengthBytes) read_at(0, &length, kLengthBytes);
  FSDP_CHECK(file_.bytes >= kLengthBytes && length <= kLongestHeader &&
                 static_cast<int64_t>(length) <= file_.bytes - kLengthBytes,
             "{}: not a safetensors file: its {} bytes cannot hold the header it announces", name_, file_.bytes);
  std::string text(kLengthBytes + length, '\0');
  read_at(0, text.data(), static_cast<int64_t>(text.size()));
  if (saved != nullptr && !saved->hash.empty()) {
    const std::string hash = files::hash_of(text.data(), text.size());
    FSDP_CHECK(hash == saved->hash,
               "{} is damaged, or of another step: the hash of its header is {}, expected {}. Use an older checkpoint.",
               name_, hash, saved->hash);
  }
  data_begin_ = static_cast<int64_t>(text.size());
  text.erase(0, kLengthBytes);
  entries_ = parse_entries(name_, text, file_.bytes - data_begin_, metadata_);
}

void SafetensorsFile::read_at(int64_t offset, void* into, int64_t size) const {
  files::read_exactly(file_, offset, into, static_cast<size_t>(size), name_);
}

void SafetensorsFile::read_bytes(const Entry& entry, int64_t begin, int64_t size, void* into) const {
  FSDP_INVARIANT(begin >= 0 && size >= 0 && size <= entry.bytes() - begin, "bytes from {} on, {} of them, of {} in {}",
                 begin, size, entry.name, name_);
  read_at(data_begin_ + entry.begin + begin, into, size);
}

torch::Tensor SafetensorsFile::read(const Entry& entry) const {
  torch::Tensor tensor = torch::empty(entry.shape, entry.type);
  read_bytes(entry, 0, entry.bytes(), tensor.mutable_data_ptr());
  return tensor;
}

torch::Tensor SafetensorsFile::read(const Entry& entry, int64_t first, int64_t numel) const {
  const auto width = static_cast<int64_t>(c10::elementSize(entry.type));
  FSDP_INVARIANT(first >= 0 && numel >= 0 && numel <= entry.bytes() / width - first,
                 "elements from {} on, {} of them, of {} in {}", first, numel, entry.name, name_);
  torch::Tensor tensor = torch::empty({numel}, entry.type);
  read_bytes(entry, first * width, numel * width, tensor.mutable_data_ptr());
  return tensor;
}

std::string SafetensorsFile::hash_of_all_bytes() const {
  files::ContentHash hash;
  std::vector<char> block(static_cast<size_t>(kHashBlockBytes));
  for (int64_t at = 0; at < file_.bytes; at += kHashBlockBytes) {
    const int64_t size = std::min(kHashBlockBytes, file_.bytes - at);
    read_at(at, block.data(), size);
    hash.add(block.data(), static_cast<size_t>(size));
  }
  return hash.hexadecimal();
}

std::map<std::string, torch::Tensor> read_safetensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::map<std::string, torch::Tensor> tensors;
  for (const Entry& entry : file.entries()) tensors.emplace(entry.name, file.read(entry));
  return tensors;
}

}  // namespace fsdp::checkpoint
