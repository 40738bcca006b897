// Which parameters are not trained.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "options/options.h"

namespace trainer {

// Names that stand between commas.
std::vector<std::string> names_in(const std::string& list);

// By name: the parameters of --freeze, and with --lora all except the adapters'.
std::set<std::string> frozen_parameters(const RunOptions& options);

// A sentence for each pattern that matches nothing, and where nothing is left to train.
std::vector<std::string> freeze_problems(const RunOptions& options);

}  // namespace trainer
