// A tensor as a converter knows it, whatever the format: its purpose, name, dtype and shape.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::formats {

// State: of an optimizer, for one parameter.
enum class Role { Parameter, Buffer, State };

struct TensorName {
  Role role = Role::Parameter;
  std::string name = {};   // of the parameter or the buffer
  std::string state = {};  // "exp_avg", "step"
  // "optimizer.exp_avg.NAME" for a state, otherwise the name alone.
  std::string text() const;
  auto operator<=>(const TensorName&) const = default;
};

struct StoredTensor {
  TensorName name = {};
  torch::ScalarType type = torch::kFloat32;
  std::vector<int64_t> shape = {};
  std::optional<size_t> same_as = {};  // the number of an earlier tensor that is stored in the same bytes

  int64_t bytes() const;
};

// The strides of a tensor in row-major order.
std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape);

// Beside tensors.
struct StoredFacts {
  int64_t step = 0;
  std::map<std::string, std::string> notes = {};  // of a training loop
  size_t left_out = 0;                            // values that no other format has a place for
  size_t numbered_states = 0;                     // tensors left out because their parameters are unknown
  bool states_by_order = false;                   // states had numbers, and were named in the order of the model
};

}  // namespace fsdp::formats
