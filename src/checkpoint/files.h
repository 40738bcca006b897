// Files that are on the disk when they say so, and a directory that appears whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>

namespace fsdp::checkpoint {

// A new file, written from its start. `close` syncs it to the disk. Throws Error naming the file.
class DurableFile {
 public:
  explicit DurableFile(const std::filesystem::path& path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(const void* bytes, size_t size);
  void close();

 private:
  std::filesystem::path path_;
  int descriptor_;
};

// Puts the finished directory `partial` in the place of `target`, both in the same parent, and syncs: after a crash at
// any moment `target` is the old one, the new one, or, where the file system cannot exchange names, absent with the old
// one beside it, as `partial`-replaced.
void commit_directory(const std::filesystem::path& partial, const std::filesystem::path& target);

// The same for a finished and closed file, in place of an older one.
void commit_file(const std::filesystem::path& partial, const std::filesystem::path& target);

}  // namespace fsdp::checkpoint
