#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checked.h"
#include "base/error.h"
#include "checkpoint/files.h"

namespace fsdp::checkpoint {

namespace {

using Json = nlohmann::ordered_json;

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

// One tensor of a header, checked.
struct Entry {
  std::string name;
  torch::ScalarType type;
  std::vector<int64_t> shape;
  int64_t begin, end;
};

// `what` of the tensor, as a number that fits.
int64_t whole_number(const std::string& file, const std::string& name, const char* what, const Json& value) {
  FSDP_CHECK(value.is_number_unsigned() && value.get<uint64_t>() <= kLargestNumber,
             "{}: tensor {} has a {} of {}, expected a whole number up to 2^62", file, name, what, value.dump());
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
    FSDP_CHECK(false, "{}: tensor {} has the shape {}, more elements than memory can hold", file, entry.name,
               entry.shape);
  }
  return empty ? 0 : bytes;
}

Entry parse_entry(const std::string& file, const std::string& name, const Json& value) {
  Entry entry{.name = name, .type = torch::kFloat32, .shape = {}, .begin = 0, .end = 0};
  const auto dtype = value.at("dtype").get<std::string>();
  const auto known =
      std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const Dtype& d) { return dtype == d.name; });
  FSDP_CHECK(known != std::end(kDtypes), "{}: tensor {} has the unknown dtype '{}'", file, name, dtype);
  entry.type = known->type;
  const Json& shape = value.at("shape");
  FSDP_CHECK(shape.is_array(), "{}: tensor {} has a shape that is not a list", file, name);
  for (const Json& size : shape) entry.shape.push_back(whole_number(file, name, "size", size));
  const Json& offsets = value.at("data_offsets");
  FSDP_CHECK(offsets.is_array() && offsets.size() == 2, "{}: tensor {} has data_offsets that are not two numbers", file,
             name);
  entry.begin = whole_number(file, name, "data offset", offsets[0]);
  entry.end = whole_number(file, name, "data offset", offsets[1]);
  const int64_t bytes = bytes_of(file, entry);
  FSDP_CHECK(entry.begin <= entry.end && entry.end - entry.begin == bytes,
             "{}: tensor {} lies from byte {} to {}, its shape and dtype need {} bytes", file, name, entry.begin,
             entry.end, bytes);
  return entry;
}

Json parse_header(const std::string& file, const std::string& text) {
  std::vector<std::set<std::string>> keys;
  auto refuse_duplicates = [&](int, nlohmann::detail::parse_event_t event, Json& parsed) {
    using Event = nlohmann::detail::parse_event_t;
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key) {
      const bool fresh = keys.back().insert(parsed.get<std::string>()).second;
      FSDP_CHECK(fresh, "{}: the header names {} twice", file, parsed.get<std::string>());
    }
    return true;
  };
  FSDP_CHECK(text.find('\0') == std::string::npos, "{}: the header is damaged: it holds a zero byte", file);
  Json header = Json::parse(text, refuse_duplicates);
  FSDP_CHECK(header.is_object(), "{}: the header is not a JSON object", file);
  return header;
}

std::string dump(const std::string& file, const Json& header) {
  try {
    return header.dump();
  } catch (const nlohmann::json::exception& error) {
    throw_error(message_prefix() + fmt::format("{}: a name is not UTF-8: {}", file, error.what()));
  }
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
    throw_error(message_prefix() + fmt::format("{}: the header is damaged: {}", file, error.what()));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  int64_t end = 0;
  for (const Entry& entry : entries) {
    FSDP_CHECK(entry.begin == end, "{}: tensor {} starts at byte {}, expected {}", file, entry.name, entry.begin, end);
    end = entry.end;
  }
  FSDP_CHECK(end == data_bytes, "{}: found {} bytes of tensors, the header announces {}. Is the file cut off?", file,
             data_bytes, end);
  return entries;
}

}  // namespace

void write_safetensors(const std::filesystem::path& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  // The widest elements first: every tensor is aligned to its own.
  NamedTensors sorted = tensors;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.element_size() > b.second.element_size(); });
  int64_t offset = 0;
  for (const auto& [name, tensor] : sorted) {
    FSDP_CHECK(!header.contains(name), "{}: two tensors have the name {}", file.string(), name);
    const auto end = offset + static_cast<int64_t>(tensor.nbytes());
    header[name] = {
        {"dtype", name_of(tensor.scalar_type())}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = dump(file.string(), header);
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  DurableFile out(file);
  out.write(&length, kLengthBytes);
  out.write(text.data(), text.size());
  for (const auto& [name, tensor] : sorted) {
    const torch::Tensor contiguous = tensor.detach().cpu().contiguous();
    out.write(contiguous.const_data_ptr(), contiguous.nbytes());
  }
  out.close();
}

std::map<std::string, torch::Tensor> read_safetensors(const std::filesystem::path& path) {
  const std::string file = path.string();
  std::ifstream in(path, std::ios::binary);
  std::error_code missing;
  const auto total = static_cast<int64_t>(std::filesystem::file_size(path, missing));
  FSDP_CHECK(in && !missing, "{}: cannot be read: {}", file, std::strerror(errno));
  uint64_t length = 0;
  in.read(reinterpret_cast<char*>(&length), kLengthBytes);
  FSDP_CHECK(in && length <= kLongestHeader && static_cast<int64_t>(length) <= total - kLengthBytes,
             "{}: not a safetensors file: its {} bytes cannot hold the header it announces", file, total);
  std::string text(length, '\0');
  in.read(text.data(), static_cast<std::streamsize>(length));
  std::map<std::string, torch::Tensor> tensors;
  for (const Entry& entry : parse_entries(file, text, total - kLengthBytes - static_cast<int64_t>(length))) {
    torch::Tensor tensor = torch::empty(entry.shape, entry.type);
    in.read(static_cast<char*>(tensor.mutable_data_ptr()), entry.end - entry.begin);
    FSDP_CHECK(in, "{}: tensor {} cannot be read", file, entry.name);
    tensors.emplace(entry.name, tensor);
  }
  return tensors;
}

}  // namespace fsdp::checkpoint
