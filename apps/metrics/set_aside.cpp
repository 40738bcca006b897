#include "metrics/set_aside.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include "files/durable_file.h"

namespace trainer {

namespace fs = std::filesystem;

fs::path set_aside(const fs::path& path, const std::string& suffix) {
  std::error_code error;
  for (int number = 1;; ++number) {
    const fs::path aside = fmt::format("{}{}{}", path.string(), suffix, number);
    const fs::file_status there = fs::symlink_status(aside, error);  // a link that leads nowhere has the name, too
    if (fs::exists(there)) continue;
    if (there.type() == fs::file_type::not_found) fs::rename(path, aside, error);
    if (error) throw fsdp::Error(fmt::format("'{}' cannot be set aside: {}.", path.string(), error.message()));
    fsdp::files::sync_directory(fsdp::files::parent_of(path));
    return aside;
  }
}

}  // namespace trainer
