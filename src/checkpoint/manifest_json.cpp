#include "checkpoint/manifest_json.h"

#include <set>
#include <utility>

#include "base/error.h"
#include "checkpoint/manifest_member.h"
#include "checkpoint/manifest_parts.h"
#include "files/content_hash.h"

namespace fsdp::checkpoint {

namespace {

using files::Json;
using files::OrderedJson;

constexpr int kOldestVersion = 2, kVersionOfPieces = 3;
constexpr int64_t kMostRanks = 1 << 20;

// A name that no other has, which would be loaded in its place.
std::string new_name(const Member& one, std::set<std::string>& names) {
  std::string name = one["name"].text();
  if (!names.insert(name).second) one["name"].fail("a name that none before has");
  return name;
}

Manifest::Parameter parameter_in(const Member& one, const Manifest& manifest, std::set<std::string>& names) {
  Manifest::Parameter parameter{new_name(one, names), one["shape"].sizes(), one["strides"].sizes()};
  if (manifest.version == kOldestVersion) return parameter;
  parameter.tensors = one["tensors"].texts();
  if (!parameter.tensors.contains("model")) one["tensors"].fail("the dtype of 'model' among them");
  one["scalars"].each_by_name(
      [&](const std::string& kind, const Member& number) { parameter.scalars[kind] = number.scalar(kind); });
  parameter.parts = manifest.version == kVersionOfPieces ? parts_of_pieces(one, parameter, manifest)
                                                         : parts_in(one, parameter, manifest);
  return parameter;
}

// By ascending ranks. Every rank to the last had a file up to version 3.
void add_file(const Member& one, Manifest& manifest) {
  const int next = manifest.writers.empty() ? 0 : manifest.writers.back() + 1;
  const std::optional<int> rank = rank_of_file(one["name"].text(), manifest.shards);
  const bool is_next = rank && (manifest.version <= kVersionOfPieces ? *rank == next : *rank >= next);
  if (!is_next) one["name"].fail(shard_file_name(next, manifest.shards));
  WrittenFile file{one["bytes"].number(0, kLargestSize), one["hash"].text()};
  if (file.hash.size() != files::kHashDigits) one["hash"].fail(fmt::format("{} digits", files::kHashDigits));
  manifest.files.push_back(std::move(file));
  manifest.writers.push_back(*rank);
}

}  // namespace

void check_format(const Json& json, const std::string& file) {
  const auto text_of = [&](const char* key) { return json.contains(key) ? json[key].dump() : "none"; };
  FSDP_CHECK(json.is_object() && text_of("format") == Json(kManifestFormat).dump(),
             "{}: found JSON of another kind, expected format {}", file, kManifestFormat);
  const std::string found = text_of("version");
  bool is_known = false;
  for (int version = kOldestVersion; version <= kManifestVersion; ++version) {
    is_known = is_known || found == std::to_string(version);
  }
  FSDP_CHECK(is_known,
             "{}: found version {} of the format, expected {} to {}. It was saved by another version of this library.",
             file, found, kOldestVersion, kManifestVersion);
}

Manifest manifest_in(const Json& json, const std::string& file) {
  const Member all(&json, "", file);
  Manifest manifest;
  manifest.world_size = static_cast<int>(all["world_size"].number(1, kMostRanks));
  manifest.shards = static_cast<int>(all["shards"].number(1, manifest.world_size));
  manifest.step = all["step"].number(0, kHighestStep);
  manifest.version = static_cast<int>(all["version"].number(kOldestVersion, kManifestVersion));
  manifest.notes = all["notes"].texts();
  all["files"].each([&](const Member& one) { add_file(one, manifest); });
  FSDP_CHECK(!manifest.files.empty() && manifest.writers.back() + 1 == manifest.shards,
             "{} is damaged: it names {} files, expected {} as the last one", file, manifest.files.size(),
             shard_file_name(manifest.shards - 1, manifest.shards));
  std::set<std::string> parameters, buffers;
  all["parameters"].each(
      [&](const Member& one) { manifest.parameters.push_back(parameter_in(one, manifest, parameters)); });
  if (manifest.version == kOldestVersion) return manifest;
  all["buffers"].each([&](const Member& one) {
    manifest.buffers.push_back({new_name(one, buffers), one["shape"].sizes(), one["dtype"].text()});
    if (manifest.version <= kVersionOfPieces) return;  // in the first file
    manifest.buffers.back().file = static_cast<int>(one["file"].number(0, std::ssize(manifest.files) - 1));
  });
  if (!all["generators"].is_there()) return manifest;
  all["generators"].each([&](const Member& one) {
    const std::string name = one["name"].text();
    const bool is_next = manifest.generators.empty() || manifest.generators.back().name < name;
    if (!is_next) one["name"].fail("names in the order of their letters");
    manifest.generators.push_back({name, one["bytes"].number(0, kLargestSize)});
  });
  return manifest;
}

OrderedJson json_of(const Manifest& manifest) {
  OrderedJson parameters = OrderedJson::array(), buffers = OrderedJson::array(), shard_files = OrderedJson::array();
  for (const auto& parameter : manifest.parameters) {
    parameters.push_back({{"name", parameter.name},
                          {"shape", parameter.shape},
                          {"strides", parameter.strides},
                          {"tensors", parameter.tensors},
                          {"scalars", parameter.scalars},
                          {"parts", json_of(parameter.parts)}});
  }
  for (const auto& buffer : manifest.buffers) {
    buffers.push_back({{"name", buffer.name}, {"shape", buffer.shape}, {"dtype", buffer.dtype}, {"file", buffer.file}});
  }
  OrderedJson generators = OrderedJson::array();
  for (const auto& generator : manifest.generators) {
    generators.push_back({{"name", generator.name}, {"bytes", generator.bytes}});
  }
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    shard_files.push_back({{"name", file_name(manifest, static_cast<int>(i))},
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
