// Kinds of state that a manifest has for a parameter, "optimizer.exp_avg" for one, and how each is kept.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace fsdp::checkpoint {

// After the kind of a state that is kept as codes of 8 bits: the kind of their scales.
inline constexpr const char* kScales = "_scale";

// A state that a parameter has a tensor of: in a dtype of its own, or as Block8 (StateDtype), which takes two tensors.
// "BFloat16", "Float32", "Block8", "Block8 without a sign"; for others the name of the dtype in the file.
std::string format_of(const Manifest::Parameter& parameter, const std::string& kind);
// True if the state is kept as codes of 8 bits, with scales in fp32 beside them.
bool is_block8(const Manifest::Parameter& parameter, const std::string& kind);
// True if values that were kept in one format can be kept in the other.
bool is_convertible(const std::string& from, const std::string& to);

// The kinds of a parameter's optimizer state, in the order of their letters; scales are a part of their codes' kind.
std::vector<std::string> state_kinds(const Manifest::Parameter& parameter);
// True if `saved` has all kinds of state that are wanted, tensors and numbers as these are: it is loaded then, and
// otherwise none of it.
bool has_state(const Manifest::Parameter& saved, const Manifest::Parameter& wanted);

}  // namespace fsdp::checkpoint
