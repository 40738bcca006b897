// First values of a model whose parameters may be divided.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <string>

namespace models {

// Calls `write` with each parameter of the module, by its name. If a parameter is divided, `write` gets a tensor of the
// whole shape without values, and this rank keeps its part: a rule that draws numbers gives every division the same
// values. Also within deferred_init.
void write_whole_parameters(torch::nn::Module& module,
                            const std::function<void(const std::string& name, torch::Tensor& whole)>& write);

}  // namespace models
