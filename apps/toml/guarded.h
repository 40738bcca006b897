// The only reader of TOML (https://toml.io/en/v1.0.0). Deep nesting would overflow the stack of the parser or of its
// tables' destructor, so it is refused before parsing.
//
// Free to call from any thread.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace guarded_toml {

inline constexpr int kDeepest = 64;                      // dots, lists and tables around a value or in a header
inline constexpr int64_t kMostBytes = int64_t{1} << 20;  // of a file

// Throws toml::parse_error, which says where, for what is no TOML or nests deeper than kDeepest.
toml::table parse(std::string_view text);

// As above, for a regular file of at most kMostBytes; fsdp::Error where it cannot be read. `name` begins its message:
// "configuration 'run.toml'".
toml::table read(const std::filesystem::path& path, const std::string& name);

}  // namespace guarded_toml
