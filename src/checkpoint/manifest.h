// manifest.json: what a checkpoint holds, of what it was made, and the hash of every file, itself included.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace fsdp::checkpoint {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr int64_t kHighestStep = int64_t{1} << 53;  // JSON's numbers are exact up to here

// A file as it was written, to be compared when it is read.
struct WrittenFile {
  int64_t bytes = 0;
  std::string hash;  // files::ContentHash of them
};

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
  std::vector<WrittenFile> files;            // by shard
};

void write_manifest(const std::filesystem::path& directory, const Manifest& manifest);
// Throws Error for a manifest that is missing, of another version, or damaged: one changed bit of it is found.
Manifest read_manifest(const std::filesystem::path& directory);

// The file of one shard in a checkpoint.
std::string shard_file_name(int shard, int shards);
// Whether a checkpoint has files of that name.
bool is_file_of_checkpoint(const std::string& name);
// Whether the directory has a manifest of ours, of any version, damaged or not.
bool is_checkpoint(const std::filesystem::path& directory);

}  // namespace fsdp::checkpoint
