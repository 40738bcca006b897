// The formats between which a converter converts.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

namespace fsdp::formats {

enum class Format { Checkpoint, HuggingFace, TorchFile, Archive, Distributed };

struct FormatEntry {
  Format format;
  const char* word;         // on a command line
  const char* description;  // "a Hugging Face folder"
  bool has_states;          // of optimizers
};
std::span<const FormatEntry> formats();
const FormatEntry& entry_of(Format format);
std::optional<Format> format_named(std::string_view word);

// By what lies at `path`, without reading much of it. TorchFile stands for archives, too: opening one shows which it
// is. None where it looks like none of them.
std::optional<Format> recognise(const std::filesystem::path& path);

}  // namespace fsdp::formats
