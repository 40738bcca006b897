// How a state of an optimizer is kept: as the fp32 tensor that rules work on, or packed in fewer bits.
//
// A format is data: a new one is a value in state_format.cpp. Packing looks at no more than one block of 64 elements,
// counted from the beginning of the parameter. Parameters and shards begin at multiples of layout::kAlignmentNumel in
// their unit, so no block lies in two shards, and the bits do not depend on the number of ranks.
#pragma once

#include <torch/types.h>

#include <span>
#include <string>
#include <vector>

#include "fsdp/optim.h"

namespace fsdp::optim {

// One of the tensors that keep a state of a piece; 1-D, and zero at first.
struct KeptTensor {
  std::string name;  // in a format: what follows the state's name
  torch::ScalarType type;
  int64_t numel_each = 1;  // elements of the piece that one of this tensor's is for; divides 64
  int64_t numel_for(int64_t piece_numel) const { return (piece_numel + numel_each - 1) / numel_each; }
};

struct StateFormat {
  std::vector<KeptTensor> tensors;
  // Between fp32 and the kept tensors of a part of a piece that begins at a multiple of 64. Null: it is kept in fp32,
  // or is for rules that take the kept tensors.
  void (*unpack)(std::span<const torch::Tensor> kept, const torch::Tensor& state) = nullptr;
  void (*pack)(const torch::Tensor& state, std::span<const torch::Tensor> kept) = nullptr;
  bool only_on_cpu = false;
};

extern const StateFormat kFloat32State;

// A tensor like the piece that a rule keeps for each parameter.
struct RuleState {
  std::string name;
  const StateFormat* format = &kFloat32State;
};

// Adam's first moment, and its second one, which has no sign.
std::vector<RuleState> adam_moments(StateDtype dtype);

}  // namespace fsdp::optim
