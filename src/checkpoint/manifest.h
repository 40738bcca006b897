// manifest.json: what a checkpoint holds, where it lies, and the hash of every file's header, and its own.
//
// A tree of hashes: the manifest's own, of the headers; in each header those of the blocks of its tensors
// (safetensors.h). So a rank that reads parts of some files checks all that it reads, and reads little more.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::checkpoint {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr int kManifestVersion = 3;
inline constexpr int64_t kHighestStep = int64_t{1} << 53;  // JSON's numbers are exact up to here

// A file as it was written, to be compared when it is read.
struct WrittenFile {
  int64_t bytes = 0;
  std::string hash;  // files::hash_of its header, with the length before it; in version 2 of all its bytes
};

struct Manifest {
  // A range of a parameter's elements, in the order of its memory: each begins where the one before ends.
  struct Piece {
    int shard = 0;
    int64_t numel = 0;  // 1 at least
    bool operator==(const Piece&) const = default;
  };
  struct Parameter {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<int64_t> strides;  // of the whole parameter
    // The tensors that each piece has, their dtypes by their kinds: "model", "optimizer.exp_avg". In the piece's file
    // they are called KIND.NAME.
    std::map<std::string, std::string> tensors = {};
    std::map<std::string, double> scalars = {};  // by kind: "optimizer.step"
    std::vector<Piece> pieces = {};              // all elements, by ascending shards
  };
  struct Buffer {  // whole, in the first file, as buffer.NAME
    std::string name;
    std::vector<int64_t> shape;
    std::string dtype;
  };
  struct Generator {  // states of all ranks, U8 [world_size, bytes], in the first file, as generator.NAME
    std::string name;
    int64_t bytes = 0;
  };
  int world_size = 1;
  int shards = 1;  // ranks that hold the model once, and files
  int64_t step = 0;
  std::vector<Parameter> parameters;
  std::map<std::string, std::string> notes;  // the loop's own
  std::vector<WrittenFile> files;            // by shard
  std::vector<Buffer> buffers = {};
  std::vector<Generator> generators = {};
  int version = kManifestVersion;
};

// True if a parameter may have the number as its scalar of this kind: a step is a whole one from 0 to kHighestStep.
bool is_scalar_of(const std::string& kind, double number);

// The elements of a tensor of these sizes; none where 64 bits cannot count them.
std::optional<int64_t> numel_of(const std::vector<int64_t>& shape);

void write_manifest(const std::filesystem::path& directory, const Manifest& manifest);
// Throws Error for a manifest that is missing, of an unknown version, or damaged: one changed bit of it is found.
// version2.h finds the parts that version 2 lacks.
Manifest read_manifest(const std::filesystem::path& directory);

// The file of one shard in a checkpoint.
std::string shard_file_name(int shard, int shards);
// True if a checkpoint has files of that name.
bool is_file_of_checkpoint(const std::string& name);
// True if the directory has a manifest of ours, of any version, damaged or not. Throws Error where one is there that
// cannot be read.
bool has_manifest(const std::filesystem::path& directory);
// The same; one that cannot be read is none.
bool is_checkpoint(const std::filesystem::path& directory);

}  // namespace fsdp::checkpoint
