// How state dicts of Python call a model's and its optimizer's tensors. Pure.
//
//   {"model": {NAME: ...}, "optimizer": {"state": {NAME: {STATE: ...}}}, "step": ...}
//
// with the words that people use in place of these two, a flat dict of a model's tensors alone, and all of it once more
// within one outer dict.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/stored_tensor.h"

namespace fsdp::formats {

using StatePath = std::vector<std::string>;  // keys from the outermost dict on

// By number of the paths; none for what belongs to neither a model nor the state of a named parameter. All names are of
// parameters: settle_buffers finds the buffers.
std::vector<std::optional<TensorName>> names_of_state(const std::vector<StatePath>& paths);
// The whole path of a file that holds a model alone.
TensorName name_of_model(const StatePath& path);

// Where a tensor lies in what is written: the optimizer's dict is called as users of the format call it.
StatePath path_in_state(const TensorName& name, const std::string& optimizer);

// Takes those parameters for buffers that match a pattern, are no floating-point numbers, or are called as those of
// normalisations are.
void settle_buffers(std::vector<StoredTensor>& tensors, const std::vector<std::string>& patterns);

}  // namespace fsdp::formats
