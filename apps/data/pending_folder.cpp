#include "data/pending_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fsdp/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "data/durable_file.h"

namespace data {

namespace fs = std::filesystem;

namespace {

fs::path without_trailing_slash(fs::path path) { return path.has_filename() ? path : path.parent_path(); }

}  // namespace

PendingFolder::PendingFolder(fs::path target)
    : target_(without_trailing_slash(std::move(target))),
      path_(fmt::format("{}.partial-{}", target_.string(), getpid())) {
  std::error_code error;
  if (fs::exists(target_, error) && !(fs::is_directory(target_, error) && fs::is_empty(target_, error))) {
    throw fsdp::Error(fmt::format("'{}' is there already, and nothing is overwritten. Remove it, or name another.",
                                  target_.string()));
  }
  fs::remove_all(path_, error);  // of an earlier process of this number
  fs::create_directories(path_, error);
  if (error) throw fsdp::Error(fmt::format("folder '{}' cannot be made: {}.", path_.string(), error.message()));
}

PendingFolder::~PendingFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(path_, ignored);
}

void PendingFolder::commit() {
  sync_folder(path_);
  if (std::rename(path_.c_str(), target_.c_str()) != 0) {
    throw fsdp::Error(fmt::format("folder '{}' cannot be put in place: {}.", target_.string(), std::strerror(errno)));
  }
  committed_ = true;
  sync_folder(target_.has_parent_path() ? target_.parent_path() : ".");
}

void sync_folder(const fs::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (!synced)
    throw fsdp::Error(fmt::format("folder '{}' cannot be synced: {}.", folder.string(), std::strerror(error)));
}

void write_durably(const fs::path& file, std::string_view bytes) {
  DurableFile output(file, "file");
  output.append(bytes);
  output.commit();
}

}  // namespace data
