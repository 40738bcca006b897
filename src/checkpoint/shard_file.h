// One shard's file of a checkpoint: read in parts, each compared with the hashes that were saved.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"

namespace fsdp::checkpoint {

// Open for reading. Free to call from any thread.
class ShardFile {
 public:
  using Entry = SafetensorsFile::Entry;

  // Throws Error naming the file, unless it has its saved size and header. Without a hash in `saved` the size alone is
  // compared, and nothing that is read.
  ShardFile(const std::filesystem::path& path, const WrittenFile& saved);

  const std::string& name() const { return file_.name(); }
  // The tensor of that name, dtype and shape. Throws Error where there is none.
  const Entry& entry(const std::string& name, const std::string& dtype, const std::vector<int64_t>& shape) const;
  // Reads `size` bytes of the tensor's, from byte `begin` on, and the rest of the hashed blocks that these lie in; with
  // `into` null it compares them and keeps none. Returns what is damaged; empty: nothing is. Throws Error where the
  // file cannot be read.
  std::string read(const Entry& entry, int64_t begin, int64_t size, void* into) const;

 private:
  // Bytes of a tensor, and where they go; null: nowhere.
  struct Wanted {
    int64_t begin, end;
    char* into;
    // `bytes` holds the tensor's bytes from `from` to `to`: copies those of them that are wanted.
    void copy(const char* bytes, int64_t from, int64_t to) const;
  };

  // Reads what is wanted of the block, and the rest of it to `unkept` where it is hashed. Returns its hash.
  std::string read_block(const Entry& entry, int64_t block, const Wanted& wanted, std::vector<char>& unkept) const;
  static int64_t end_of(const Entry& entry, int64_t block);
  std::string_view saved_hash(const Entry& entry, int64_t block) const;

  SafetensorsFile file_;
  bool is_hashed_;
  std::map<std::string_view, size_t> numbers_;  // of the entries
  std::vector<size_t> first_hash_;              // of each entry
  std::string_view hashes_;
};

}  // namespace fsdp::checkpoint
