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
// was not committed. What a killed process left is removed by nobody. One thread.
class NewFolder {
 public:
  // Throws Error where `target` is there: an empty folder is replaced always; with Existing::Replace so is one whose
  // files are all of those that `is_own` knows. Nothing else is.
  NewFolder(std::filesystem::path target, Existing existing, bool (*is_own)(const std::string& name));
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
