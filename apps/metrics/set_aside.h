// Renames files that are in the way and may be precious.
#pragma once

#include <filesystem>
#include <string>

namespace trainer {

// Renames `path` to the first of `path` + `suffix` + "1", "2", ... that nothing has, and returns that name. Throws
// fsdp::Error when it cannot.
std::filesystem::path set_aside(const std::filesystem::path& path, const std::string& suffix);

}  // namespace trainer
