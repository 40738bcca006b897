// Targets of a conversion: a file or a folder that appears whole.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "files/durable_file.h"
#include "formats/sink.h"

namespace fsdp::formats {

// Written beside `target` and put in its place by commit(). Throws Error where something lies there, which is replaced
// only where it is a file and `existing` says so.
std::unique_ptr<files::ReplacedFile> new_file(const std::filesystem::path& target, Existing existing);

// A folder that is written as TARGET.partial-XXXXXX, synced, and renamed by commit(); the destructor removes one that
// was not committed. Leftovers of a killed process are not removed. One thread.
class NewFolder {
 public:
  // Throws Error where `target` is there: an empty folder is always replaced. With Existing::Replace a folder is, too,
  // if `is_own` is true for all its files. Nothing else is.
  NewFolder(const std::filesystem::path& target, Existing existing, bool (*is_own)(const std::string& name));
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // The files in it have to be on the disk already.
  void commit();

 private:
  void check_replaceable() const;

  std::filesystem::path target_, path_;
  Existing existing_;
  bool (*is_own_)(const std::string& name);
};

}  // namespace fsdp::formats
