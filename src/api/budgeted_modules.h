// The blocks of a module among which Options::activation_memory is divided.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/activation_budget.h"
#include "fsdp/activation_checkpoint.h"
#include "fsdp/options.h"

namespace fsdp {

// Recomputed blocks by name, none inside of another. The module owns them.
using BudgetedModules = std::vector<std::pair<std::string, RecomputedModule*>>;

// In the order of registration.
BudgetedModules recomputed_modules(const torch::nn::Module& module);
// Those of a module that is sharded; none without a budget. Throws Error for a budget below 0, for one beside
// offload_activations or without blocks, and for blocks that are told what to keep.
BudgetedModules budgeted_modules(const torch::nn::Module& module, const Options& options);
std::vector<std::string> block_names(const BudgetedModules& modules);
// From now on each asks for its budget.
void give_budgets(const BudgetedModules& modules, const engine::ActivationBudget::Blocks& blocks);

// The same for a model without a torch::nn::Module.
void check_no_budget(const Options& options);

}  // namespace fsdp
