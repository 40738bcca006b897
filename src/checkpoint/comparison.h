// Compares a checkpoint with the load's target: all differences at once, from the manifests alone.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "fsdp/checkpoint.h"

namespace fsdp::checkpoint {

struct Comparison {
  LoadDifferences differences;        // that LoadOptions may allow
  std::vector<std::string> texts;     // of those
  std::vector<std::string> problems;  // that no option allows
  bool of_the_model = false;          // not of the optimizer's state alone
};

// `with_optimizer`: whether its state is to be loaded. `wanted` has names, shapes, strides and dtypes.
Comparison compare(const Manifest& saved, const Manifest& wanted, bool with_optimizer);

// Throws Error where `strict` is off and `differences` is null: a load always tells what it did not load.
void check_told(const char* call, bool strict, const LoadDifferences* differences);

// Throws Error for what `strict`, or any load, refuses; `directory` begins the message.
void check(const Comparison& comparison, bool strict, const std::string& directory);

}  // namespace fsdp::checkpoint
