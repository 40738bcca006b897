// The text to train on, as bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace trainer {

// The bytes of a file; or of every file under a folder that looks like text (no NUL byte in its first 8 KiB), in the
// order of their paths, each ended by a newline. Throws fsdp::Error that names what is missing, unreadable or empty.
std::string read_text(const std::filesystem::path& path);

struct TextSplit {
  std::string_view training;
  std::string_view validation;  // the last twentieth; empty when that is less than one window
};

// Throws fsdp::Error when the text has no window of context + 1 bytes to train on.
TextSplit split_text(std::string_view text, int64_t context);

}  // namespace trainer
