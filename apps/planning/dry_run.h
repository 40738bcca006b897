// The text of --dry-run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "options/options.h"

namespace trainer {

// The model's parameters by part, what each rank will hold, and what a step comes to; lines that end with a newline.
// `windows`: those of the training data, where it is known. `options` are resolved.
std::string dry_run_text(const Options& options, std::optional<int64_t> windows);

}  // namespace trainer
