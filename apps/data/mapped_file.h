// A file as memory that is only read: nothing is copied, and processes that map the same file share its pages.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "data/shrunk_pages.h"

namespace data {

// Immutable once made: threads, and processes forked from this one, may share it. It holds no descriptor.
class MappedFile {
 public:
  // `what` begins the messages: "text", "token file". Throws fsdp::Error that names what does not exist, is no regular
  // file, cannot be read, or is empty.
  MappedFile(const std::filesystem::path& path, std::string_view what);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::string& name() const { return name_; }  // token file 'train.bin'
  std::string_view bytes() const { return {static_cast<const char*>(memory_), size_}; }
  int64_t written() const { return written_; }  // seconds since 1970, when it was opened
  // Takes it out of this process's resident memory; the next read brings it back.
  void release() const;

  // Throws fsdp::Error when the file has become shorter than it was. Call it after what is read at once, and use that
  // only then: where the file was cut before or meanwhile, zeros were read.
  void check() const;

 private:
  std::filesystem::path path_;
  std::string name_;
  void* memory_ = nullptr;
  size_t size_ = 0;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  int64_t written_ = 0;
  WatchedMapping* watched_ = nullptr;
};

}  // namespace data
