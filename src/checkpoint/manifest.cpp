#include "checkpoint/manifest.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/files.h"

namespace fsdp::checkpoint {

namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kFormat = "fsdp-checkpoint";
constexpr int kVersion = 1;

}  // namespace

std::string shard_file_name(int shard, int shards) {
  return fmt::format("shard-{:05}-of-{:05}.safetensors", shard + 1, shards);
}

void write_manifest(const std::filesystem::path& directory, const Manifest& manifest) {
  Json parameters = Json::array();
  for (const auto& parameter : manifest.parameters) {
    parameters.push_back({{"name", parameter.name}, {"shape", parameter.shape}, {"strides", parameter.strides}});
  }
  const Json json = {{"format", kFormat},         {"version", kVersion},   {"world_size", manifest.world_size},
                     {"shards", manifest.shards}, {"step", manifest.step}, {"notes", manifest.notes},
                     {"parameters", parameters}};
  std::string text;
  try {
    text = json.dump(2) + "\n";
  } catch (const nlohmann::json::exception& error) {
    throw_error(message_prefix() +
                fmt::format("{}: notes and names have to be UTF-8: {}", directory.string(), error.what()));
  }
  DurableFile file(directory / kManifestName);
  file.write(text.data(), text.size());
  file.close();
}

Manifest read_manifest(const std::filesystem::path& directory) {
  const std::string file = (directory / kManifestName).string();
  std::ifstream in(file);
  FSDP_CHECK(in.good(), "{} cannot be read: {} is not a checkpoint", file, directory.string());
  try {
    const Json json = Json::parse(in);
    FSDP_CHECK(json.at("format") == kFormat && json.at("version") == kVersion,
               "{}: found format {} version {}, expected {} version {}", file, json.at("format").dump(),
               json.at("version").dump(), kFormat, kVersion);
    Manifest manifest{.world_size = json.at("world_size").get<int>(),
                      .shards = json.at("shards").get<int>(),
                      .step = json.at("step").get<int64_t>(),
                      .parameters = {},
                      .notes = json.value("notes", std::map<std::string, std::string>())};
    for (const Json& parameter : json.at("parameters")) {
      manifest.parameters.push_back({.name = parameter.at("name").get<std::string>(),
                                     .shape = parameter.at("shape").get<std::vector<int64_t>>(),
                                     .strides = parameter.at("strides").get<std::vector<int64_t>>()});
    }
    return manifest;
  } catch (const nlohmann::json::exception& error) {
    throw_error(message_prefix() + fmt::format("{} is damaged: {}", file, error.what()));
  }
}

}  // namespace fsdp::checkpoint
