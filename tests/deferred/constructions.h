// Modules whose construction is worth deferring: each kind of layer, and what constructors do with their parameters.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::testing_models {

struct Construction {
  std::string name;
  std::function<std::shared_ptr<torch::nn::Module>()> make;

  friend void PrintTo(const Construction& construction, std::ostream* out) { *out << construction.name; }
};

std::vector<Construction> constructions();

using NamedState = std::vector<std::pair<std::string, torch::Tensor>>;

// Parameters and buffers, a tied one under each of its names.
NamedState state_of(const torch::nn::Module& module);

// The default generator's state.
torch::Tensor generator_state();

// Names of what differs in bits, strides, dtype or requires_grad; empty: nothing does.
std::vector<std::string> differing(const NamedState& expected, const NamedState& found);

}  // namespace fsdp::testing_models
