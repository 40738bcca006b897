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

// By number of the paths; none for what belongs to neither a model nor the state of a parameter. All names are of
// parameters: settle_buffers finds the buffers.
std::vector<std::optional<TensorName>> names_of_state(const std::vector<StatePath>& paths);
// True if it is the state of a parameter that is known by a number, as optimizers of Python have them that were given
// no names.
bool is_numbered(const TensorName& name);

// One of an optimizer's "param_groups": the parameters' numbers, and their names, which optimizers have that were made
// of named_parameters().
struct ParameterGroup {
  std::vector<int64_t> numbers;
  std::vector<std::string> names = {};
};

enum class NumberedStates {
  None,          // there are none
  NamedByFile,   // as the groups have their names
  NamedByOrder,  // of one group without names: in the order of the model's parameters, as Module.parameters() has them
  Unknown,       // nothing is changed: a name or a number is unknown, or a state has not the shape of its parameter
};

// Gives numbered states the names of their parameters.
NumberedStates name_numbered_states(std::vector<StoredTensor>& tensors, const std::vector<ParameterGroup>& groups);

// The whole path of a file that holds a model alone.
TensorName name_of_model(const StatePath& path);

// Where a tensor lies in what is written: the optimizer's dict is called as users of the format call it.
StatePath path_in_state(const TensorName& name, const std::string& optimizer);

// Takes those parameters for buffers that match a pattern, are no floating-point numbers, or are called as those of
// normalisations are.
void settle_buffers(std::vector<StoredTensor>& tensors, const std::vector<std::string>& patterns);

}  // namespace fsdp::formats
