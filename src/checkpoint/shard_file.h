// One shard's file of a checkpoint: read in parts, each compared with the hashes that were saved.
#pragma once

#include <map>
#include <span>
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
  // Bytes of a tensor, and where they go: `count` runs of `bytes` each.
  struct Wanted {
    int64_t begin = 0;     // of the first run
    int64_t bytes = 0;     // of each run; 1 at least
    char* into = nullptr;  // for the first run; null: the bytes are compared with their hashes, and not kept
    int64_t count = 1;
    int64_t step = 0;  // from one run to the next: `bytes` at least
    int64_t step_into = 0;

    int64_t end() const { return begin + (count - 1) * step + bytes; }
    // The first wanted byte that is not before byte `from`; end() if there is none.
    int64_t next(int64_t from) const;
    // `all` holds the tensor's bytes from `from` to `to`: copies those of them that are wanted.
    void copy(const char* all, int64_t from, int64_t to) const;
    // Where bytes `from` to `to` go if all of them go there in one piece; null if they do not.
    char* place_of(int64_t from, int64_t to) const;
  };

  // Reads `size` bytes of the tensor's, from byte `begin` on, and the rest of the hashed blocks that these lie in; with
  // `into` null it compares them and keeps none. Returns what is damaged; empty: nothing is. Throws Error where the
  // file cannot be read.
  std::string read(const Entry& entry, int64_t begin, int64_t size, void* into) const;
  // The same for what is wanted of one block of kHashBlockBytes.
  std::string read_block(const Entry& entry, int64_t block, std::span<const Wanted* const> wanted) const;

 private:
  // Reads what is wanted of the block, and the rest of it to `unkept` where it is hashed. Returns its hash.
  std::string hash_of_block(const Entry& entry, int64_t block, std::span<const Wanted* const> wanted,
                            std::vector<char>& unkept) const;
  static int64_t end_of(const Entry& entry, int64_t block);
  std::string_view saved_hash(const Entry& entry, int64_t block) const;

  SafetensorsFile file_;
  bool is_hashed_;
  std::map<std::string_view, size_t> numbers_;  // of the entries
  std::vector<size_t> first_hash_;              // of each entry
  std::string_view hashes_;
};

}  // namespace fsdp::checkpoint
