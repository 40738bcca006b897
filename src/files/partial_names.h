// Names of what lies beside a checkpoint while it is saved, or after a process died in the midst of that
// (docs/checkpoint_format.md). Each follows the checkpoint's own name.
#pragma once

#include <cstddef>
#include <string_view>

namespace fsdp::files {

// The directory that is being written: this, and as many characters as make the suffix kPartialSuffixBytes long. A
// single file (ReplacedFile): this, and the number of its process.
inline constexpr std::string_view kPartialSuffix = ".partial-";
inline constexpr size_t kPartialSuffixBytes = 15;
// The lock of who saves.
inline constexpr std::string_view kPartialLockSuffix = ".partial.lock";
// The older checkpoint, moved aside where the file system cannot exchange names.
inline constexpr std::string_view kPartialReplacedSuffix = ".partial-replaced";

}  // namespace fsdp::files
