// manifest.json: what a checkpoint holds, and of what it was made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace fsdp::checkpoint {

inline constexpr const char* kManifestName = "manifest.json";

struct Manifest {
  struct Parameter {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<int64_t> strides;  // of the whole parameter: pieces are cut in the order of its memory
    bool operator==(const Parameter&) const = default;
  };
  int world_size = 1;
  int shards = 1;  // ranks that hold the model once, and files
  int64_t step = 0;
  std::vector<Parameter> parameters;
  std::map<std::string, std::string> notes;  // the loop's own
};

void write_manifest(const std::filesystem::path& directory, const Manifest& manifest);
// Throws Error for a manifest that is missing, damaged or of another version.
Manifest read_manifest(const std::filesystem::path& directory);
// The file of one shard in a checkpoint.
std::string shard_file_name(int shard, int shards);

}  // namespace fsdp::checkpoint
