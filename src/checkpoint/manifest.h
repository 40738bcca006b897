// manifest.json: what a checkpoint holds, where it lies, and the hash of every file's header, and its own.
//
// Each rank of the world that holds something writes one file. A parameter is divided into parts: each says which
// elements it has (layout/placement.h), and where they lie.
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

#include "layout/placement.h"

namespace fsdp::checkpoint {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr int kManifestVersion = 4;
inline constexpr int64_t kHighestStep = int64_t{1} << 53;  // JSON's numbers are exact up to here

// A file as it was written, to be compared when it is read.
struct WrittenFile {
  int64_t bytes = 0;
  std::string hash;  // files::hash_of its header, with the length before it; in version 2 of all its bytes
};

struct Manifest {
  // Some elements of a parameter, in the order of its memory. At least one.
  struct Part {
    int file = 0;        // its number in `files`
    int64_t offset = 0;  // of the first element, in the tensors that the file has of the parameter
    layout::Placement placement;
    bool operator==(const Part&) const = default;
  };
  struct Parameter {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<int64_t> strides;  // of the whole parameter
    // The tensors that each part lies in, their dtypes by their kinds: "model", "optimizer.exp_avg". In the part's file
    // they are called KIND.NAME, and are 1-D.
    std::map<std::string, std::string> tensors = {};
    std::map<std::string, double> scalars = {};  // by kind: "optimizer.step"
    std::vector<Part> parts = {};                // make up the parameter, as layout::tiling_problem has it
  };
  struct Buffer {  // whole, as buffer.NAME
    std::string name;
    std::vector<int64_t> shape;
    std::string dtype;
    int file = 0;  // its number in `files`
  };
  struct Generator {  // states of all ranks, U8 [world_size, bytes], in the first file, as generator.NAME
    std::string name;
    int64_t bytes = 0;
  };
  int world_size = 1;
  int shards = 1;  // the last rank that wrote a file, plus 1
  int64_t step = 0;
  std::vector<Parameter> parameters;
  std::map<std::string, std::string> notes;  // the loop's own
  std::vector<WrittenFile> files;            // by ascending ranks
  std::vector<Buffer> buffers = {};
  std::vector<Generator> generators = {};
  std::vector<int> writers = {};  // the files' ranks in the world; none: every rank from 0 on
  int version = kManifestVersion;
};

// True if a parameter may have the number as its scalar of this kind: a step is a whole one from 0 to kHighestStep.
bool is_scalar_of(const std::string& kind, double number);

// The elements of a tensor of these sizes; none where 64 bits cannot count them.
std::optional<int64_t> numel_of(const std::vector<int64_t>& shape);

void write_manifest(const std::filesystem::path& directory, const Manifest& manifest);
// Throws Error for a manifest that is missing, of an unknown version, or damaged: one changed bit of it is found.
// A manifest of version 3 comes as one of today's. version2.h finds what version 2 lacks.
Manifest read_manifest(const std::filesystem::path& directory);

// The file of a rank in a checkpoint whose last file is that of rank `shards` - 1.
std::string shard_file_name(int rank, int shards);
// The rank of the file of that name in such a checkpoint.
std::optional<int> rank_of_file(const std::string& name, int shards);
std::string file_name(const Manifest& manifest, int file);
// True if a checkpoint has files of that name.
bool is_file_of_checkpoint(const std::string& name);
// True if the directory has a manifest of ours, of any version, damaged or not. Throws Error where one is there that
// cannot be read.
bool has_manifest(const std::filesystem::path& directory);
// The same; one that cannot be read is none.
bool is_checkpoint(const std::filesystem::path& directory);

}  // namespace fsdp::checkpoint
