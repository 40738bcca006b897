// A file that is on the disk, whole, once it has its name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace data {

// Written under a temporary name, FILE.partial-<number of the process>; commit() syncs it and gives it its own. Without
// that the destructor removes it. One thread at a time.
class DurableFile {
 public:
  // `what` begins the messages: "token file". Throws fsdp::Error when it cannot be made.
  DurableFile(const std::filesystem::path& file, std::string_view what);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  // Throws fsdp::Error, on a full disk for one; the file is of no use then.
  void append(std::string_view bytes);
  // Over what was appended at the beginning of the file.
  void overwrite_beginning(std::string_view bytes);
  void commit();

  const std::string& name() const { return name_; }  // token file 'train.bin'

 private:
  void write(std::string_view bytes, int64_t offset);
  void flush();
  [[noreturn]] void fail() const;

  std::filesystem::path file_, temporary_;
  std::string name_;
  int descriptor_;
  std::string buffer_;   // not written yet
  int64_t written_ = 0;  // bytes before it
};

}  // namespace data
