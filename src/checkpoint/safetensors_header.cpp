#include "checkpoint/safetensors_header.h"

#include <c10/util/accumulate.h>

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "files/json.h"
#include "files/printable.h"

namespace fsdp::checkpoint {

namespace {

using files::Json;
using files::printable;

constexpr uint64_t kLargestNumber = uint64_t{1} << 62;

struct Dtype {
  const char* name;
  torch::ScalarType type;
};
constexpr Dtype kDtypes[] = {{"F64", torch::kFloat64},   {"F32", torch::kFloat32}, {"F16", torch::kFloat16},
                             {"BF16", torch::kBFloat16}, {"I64", torch::kInt64},   {"I32", torch::kInt32},
                             {"I16", torch::kInt16},     {"I8", torch::kInt8},     {"U8", torch::kUInt8},
                             {"U64", torch::kUInt64},    {"U32", torch::kUInt32},  {"U16", torch::kUInt16},
                             {"BOOL", torch::kBool}};

using Entry = SafetensorsEntry;

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

Json header_json(const std::string& file, const std::string& text) {
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

std::map<std::string, std::string> metadata_in(const Json& header) {
  std::map<std::string, std::string> metadata;
  const auto found = header.find("__metadata__");
  if (found == header.end() || !found->is_object()) return metadata;
  for (const auto& [name, value] : found->items()) {
    if (value.is_string()) metadata[name] = value.get<std::string>();
  }
  return metadata;
}

}  // namespace

std::string dtype_name(torch::ScalarType type) {
  for (const Dtype& dtype : kDtypes) {
    if (dtype.type == type) return dtype.name;
  }
  throw_error(message_prefix() + fmt::format("safetensors has no dtype for {}", toString(type)));
}

int64_t AnnouncedTensor::bytes() const {
  return c10::multiply_integers(shape) * static_cast<int64_t>(c10::elementSize(type));
}

std::string header_text(const std::string& file, const std::vector<AnnouncedTensor>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  files::OrderedJson header = files::OrderedJson::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const auto& tensor : tensors) {
    FSDP_CHECK(!header.contains(tensor.name), "{}: two tensors have the name {}", file, tensor.name);
    const int64_t end = offset + tensor.bytes();
    header[tensor.name] = {
        {"dtype", dtype_name(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = dump(file, header);
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), kLengthBytes) + text;
}

SafetensorsHeader parse_header(const std::string& file, const std::string& text, int64_t data_bytes) {
  SafetensorsHeader header;
  std::vector<Entry>& entries = header.entries;
  try {
    const Json json = header_json(file, text);
    header.metadata = metadata_in(json);
    for (const auto& [name, value] : json.items()) {
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
  return header;
}

}  // namespace fsdp::checkpoint
