// Files that are on the disk when they say so.
//
// Errors are fsdp::Error, name the file and have no prefix: apps/ uses this room too. A symbolic link where a file is
// to be made is never followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "files/content_hash.h"
#include "files/reading.h"

namespace fsdp::files {

// A new file, written from its start; what has its name already is an error. `close` syncs it to the disk. One that was
// not closed is removed by the destructor. One thread at a time.
class DurableFile {
 public:
  // `name` begins the messages: "token file 'train.bin'"; empty: the path alone.
  explicit DurableFile(const std::filesystem::path& path, std::string name = "");
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  // Throws Error, on a full disk for one; the file is of no use then.
  void append(const void* bytes, size_t size);
  void append(std::string_view bytes) { append(bytes.data(), bytes.size()); }
  // Over what was appended at the beginning of the file.
  void overwrite_beginning(std::string_view bytes);
  void close();

  int64_t bytes() const { return bytes_; }  // appended so far

 private:
  void write(const char* bytes, size_t size, int64_t offset);
  void flush();
  // The system writes to the disk while more is appended.
  void begin_writeback();
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  std::string name_;
  Descriptor descriptor_;
  int64_t bytes_ = 0;
  std::string buffer_;  // the last of them, not written yet
  int64_t begun_ = 0;   // bytes of which begin_writeback was told
};

// A file that replaces an older one, or appears, when it is complete. It is written under a name that ends with
// ".partial-" and the number of the process, synced, and renamed by `commit`. Without that the destructor removes it,
// and the older one stays; a process that is killed leaves it behind. If that name is neither a file nor a link, it is
// an error.
class ReplacedFile {
 public:
  explicit ReplacedFile(std::filesystem::path path, std::string name = "");
  DurableFile& file() { return file_; }
  void commit();

 private:
  std::filesystem::path path_, partial_;
  std::string name_;
  DurableFile file_;
};

// The file that `name` is an unfinished ReplacedFile of, "sample.txt" of "sample.txt.partial-123"; empty: of none.
std::string target_of_unfinished(std::string_view name);

// Such a file in one go.
void write_durably(const std::filesystem::path& path, std::string_view bytes);

// Syncs a directory's entries to the disk.
void sync_directory(const std::filesystem::path& path);

// Makes a directory, and those above it, where they are missing. Their names are on the disk then, also names made by a
// killed process. A parent directory that cannot be read or synced is skipped.
void make_directories(const std::filesystem::path& path);

// The directory that a path's last name lies in: "." for a name alone.
std::filesystem::path parent_of(const std::filesystem::path& path);

}  // namespace fsdp::files
