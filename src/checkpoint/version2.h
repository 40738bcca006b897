// Checkpoints of version 2 of the format, whose manifest has less. Files have one hash each. They hold every piece,
// empty ones too, and the step counts, as scalars in every file.
#pragma once

#include <filesystem>

#include "checkpoint/manifest.h"

namespace fsdp::checkpoint {

// Fills in, from the files' headers, what a manifest of this version lacks. This rank, of so many that do the same,
// checks the hashes of its part of the files; then they are empty. Throws Error naming the file.
void complete_version2(const std::filesystem::path& directory, Manifest& manifest, int rank, int ranks);

}  // namespace fsdp::checkpoint
