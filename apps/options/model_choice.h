// From the options of the model to its shape.
#pragma once

#include <string>
#include <vector>

#include "options/options.h"

namespace trainer {

struct ModelChoice {
  models::ModelConfig config;
  std::vector<std::string> problems;  // every one that was found, a sentence each
};

// The shape that --model names, and what other options change of it.
ModelChoice choose_model(const ModelOptions& options);

// Writes a shape that no name stands for into the options, in full.
void spell_out(const models::ModelConfig& shape, ModelOptions& options);

// A sentence if the folder of --init-from has a GPT-2 with fewer positions than --context; otherwise empty. If it has
// more, the first are loaded.
std::string positions_problem(const RunOptions& options);

}  // namespace trainer
