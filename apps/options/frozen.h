// Which parameters are not trained.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "options/options.h"

namespace trainer {

// Names that stand between commas.
std::vector<std::string> names_in(const std::string& list);

// True if `pattern`, as --freeze has it, names the parameter or a module that it lies in.
bool names_parameter(const std::string& pattern, const std::string& parameter);

// By name: the parameters of --freeze, and with --lora all except the adapters'.
std::set<std::string> frozen_parameters(const RunOptions& options);

// A sentence for each pattern of `freeze` that matches none of the parameters, and where nothing is left to train.
std::vector<std::string> freeze_problems(const std::string& freeze, const std::vector<std::string>& parameters);
// The same of the model's parameters.
std::vector<std::string> freeze_problems(const RunOptions& options);

}  // namespace trainer
