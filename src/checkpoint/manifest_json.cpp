#include "checkpoint/manifest_json.h"

#include "base/error.h"
#include "files/content_hash.h"
#include "files/printable.h"

namespace fsdp::checkpoint {

namespace {

using files::Json;
using files::OrderedJson;

constexpr int kOldestVersion = 2;
constexpr int64_t kMostRanks = 1 << 20;
constexpr int64_t kLargestSize = int64_t{1} << 62;

std::string text_in(const Json& object, const char* key, const std::string& file) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  FSDP_CHECK(object.is_object() && found != object.end() && found->is_string(),
             "{} is damaged: expected a text for '{}'", file, key);
  return found->get<std::string>();
}

const Json& list_in(const Json& object, const char* key, const std::string& file) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  FSDP_CHECK(object.is_object() && found != object.end() && found->is_array(),
             "{} is damaged: expected a list for '{}'", file, key);
  return *found;
}

std::vector<int64_t> sizes_in(const Json& object, const char* key, const std::string& file) {
  std::vector<int64_t> sizes;
  for (const Json& size : list_in(object, key, file)) {
    sizes.push_back(files::whole_number({{key, size}}, key, file, 0, kLargestSize));
  }
  return sizes;
}

const Json& object_in(const Json& object, const char* key, const std::string& file) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  FSDP_CHECK(object.is_object() && found != object.end() && found->is_object(), "{} is damaged: expected {} by name",
             file, key);
  return *found;
}

std::map<std::string, std::string> texts_in(const Json& object, const char* key, const std::string& file) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, text] : object_in(object, key, file).items()) {
    FSDP_CHECK(text.is_string(), "{} is damaged: expected a text for '{}'", file, files::printable(name));
    texts[name] = text.get<std::string>();
  }
  return texts;
}

std::map<std::string, double> numbers_in(const Json& object, const char* key, const std::string& file) {
  std::map<std::string, double> numbers;
  for (const auto& [name, number] : object_in(object, key, file).items()) {
    FSDP_CHECK(number.is_number(), "{} is damaged: expected a number for '{}'", file, files::printable(name));
    numbers[name] = number.get<double>();
  }
  return numbers;
}

// They make up the parameter.
std::vector<Manifest::Piece> pieces_in(const Json& one, const Manifest& manifest, const std::string& file) {
  std::vector<Manifest::Piece> pieces;
  const std::string name = files::printable(text_in(one, "name", file));
  const std::optional<int64_t> numel = numel_of(sizes_in(one, "shape", file));
  FSDP_CHECK(numel, "{} is damaged: {} has more elements than memory can hold", file, name);
  int64_t shard = -1, left = *numel;
  for (const Json& piece : list_in(one, "pieces", file)) {
    FSDP_CHECK(piece.is_array() && piece.size() == 2, "{} is damaged: expected pieces of a shard and a size", file);
    shard = files::whole_number({{"shard", piece[0]}}, "shard", file, shard + 1, manifest.shards - 1);
    const int64_t size = files::whole_number({{"size", piece[1]}}, "size", file, 1, kLargestSize);
    FSDP_CHECK(size <= left, "{} is damaged: the pieces of {} have more elements than its {}", file, name, *numel);
    pieces.push_back({static_cast<int>(shard), size});
    left -= size;
  }
  FSDP_CHECK(left == 0, "{} is damaged: the pieces of {} have {} elements, expected {}", file, name, *numel - left,
             *numel);
  return pieces;
}

Manifest::Parameter parameter_in(const Json& one, const Manifest& manifest, const std::string& file) {
  Manifest::Parameter parameter{text_in(one, "name", file), sizes_in(one, "shape", file),
                                sizes_in(one, "strides", file)};
  if (manifest.version == kOldestVersion) return parameter;
  parameter.tensors = texts_in(one, "tensors", file);
  FSDP_CHECK(parameter.tensors.contains("model"), "{} is damaged: expected the dtype of {}", file,
             files::printable(parameter.name));
  parameter.scalars = numbers_in(one, "scalars", file);
  parameter.pieces = pieces_in(one, manifest, file);
  return parameter;
}

}  // namespace

void check_format(const Json& json, const std::string& file) {
  const auto text_of = [&](const char* key) { return json.contains(key) ? json[key].dump() : "none"; };
  FSDP_CHECK(json.is_object() && text_of("format") == Json(kManifestFormat).dump(),
             "{}: found JSON of another kind, expected format {}", file, kManifestFormat);
  const std::string found = text_of("version");
  FSDP_CHECK(found == std::to_string(kManifestVersion) || found == std::to_string(kOldestVersion),
             "{}: found version {} of the format, expected {} or {}. It was saved by another version of this library.",
             file, found, kOldestVersion, kManifestVersion);
}

Manifest manifest_in(const Json& json, const std::string& file) {
  const auto number = [&](const Json& object, const char* key, int64_t least, int64_t most) {
    return files::whole_number(object, key, file, least, most);
  };
  Manifest manifest;
  manifest.world_size = static_cast<int>(number(json, "world_size", 1, kMostRanks));
  manifest.shards = static_cast<int>(number(json, "shards", 1, manifest.world_size));
  manifest.step = number(json, "step", 0, kHighestStep);
  manifest.version = static_cast<int>(number(json, "version", kOldestVersion, kManifestVersion));
  manifest.notes = texts_in(json, "notes", file);
  for (const Json& one : list_in(json, "files", file)) {
    const std::string name = text_in(one, "name", file);
    const std::string expected = shard_file_name(static_cast<int>(manifest.files.size()), manifest.shards);
    FSDP_CHECK(name == expected, "{} is damaged: it names the file '{}', expected '{}'", file, files::printable(name),
               expected);
    manifest.files.push_back({number(one, "bytes", 0, kLargestSize), text_in(one, "hash", file)});
    FSDP_CHECK(manifest.files.back().hash.size() == files::kHashDigits, "{} is damaged: expected a hash of {}", file,
               name);
  }
  FSDP_CHECK(static_cast<int>(manifest.files.size()) == manifest.shards,
             "{} is damaged: it names {} files, expected {}", file, manifest.files.size(), manifest.shards);
  for (const Json& one : list_in(json, "parameters", file)) {
    manifest.parameters.push_back(parameter_in(one, manifest, file));
  }
  if (manifest.version == kOldestVersion) return manifest;
  for (const Json& one : list_in(json, "buffers", file)) {
    manifest.buffers.push_back({text_in(one, "name", file), sizes_in(one, "shape", file), text_in(one, "dtype", file)});
  }
  if (!json.contains("generators")) return manifest;
  for (const Json& one : list_in(json, "generators", file)) {
    const std::string name = text_in(one, "name", file);
    FSDP_CHECK(manifest.generators.empty() || manifest.generators.back().name < name,
               "{} is damaged: expected generators in the order of their names", file);
    manifest.generators.push_back({name, number(one, "bytes", 0, kLargestSize)});
  }
  return manifest;
}

OrderedJson json_of(const Manifest& manifest) {
  OrderedJson parameters = OrderedJson::array(), buffers = OrderedJson::array(), shard_files = OrderedJson::array();
  for (const auto& parameter : manifest.parameters) {
    OrderedJson pieces = OrderedJson::array();
    for (const auto& [shard, numel] : parameter.pieces) pieces.push_back(OrderedJson::array({shard, numel}));
    parameters.push_back({{"name", parameter.name},
                          {"shape", parameter.shape},
                          {"strides", parameter.strides},
                          {"tensors", parameter.tensors},
                          {"scalars", parameter.scalars},
                          {"pieces", pieces}});
  }
  for (const auto& buffer : manifest.buffers) {
    buffers.push_back({{"name", buffer.name}, {"shape", buffer.shape}, {"dtype", buffer.dtype}});
  }
  OrderedJson generators = OrderedJson::array();
  for (const auto& generator : manifest.generators) {
    generators.push_back({{"name", generator.name}, {"bytes", generator.bytes}});
  }
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    shard_files.push_back({{"name", shard_file_name(static_cast<int>(i), manifest.shards)},
                           {"bytes", manifest.files[i].bytes},
                           {"hash", manifest.files[i].hash}});
  }
  OrderedJson json = {{"hash", std::string(files::kHashDigits, '0')},
                      {"format", kManifestFormat},
                      {"version", kManifestVersion},
                      {"world_size", manifest.world_size},
                      {"shards", manifest.shards},
                      {"step", manifest.step},
                      {"notes", manifest.notes},
                      {"files", shard_files},
                      {"parameters", parameters},
                      {"buffers", buffers}};
  if (!manifest.generators.empty()) json["generators"] = std::move(generators);
  return json;
}

}  // namespace fsdp::checkpoint
