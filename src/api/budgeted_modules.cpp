#include "api/budgeted_modules.h"

#include "base/error.h"

namespace fsdp {

namespace {

bool is_inside(const std::string& name, const BudgetedModules& modules) {
  return !modules.empty() && name.starts_with(modules.back().first + ".");
}

}  // namespace

BudgetedModules recomputed_modules(const torch::nn::Module& module) {
  BudgetedModules modules;
  for (const auto& named : module.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    auto* block = dynamic_cast<RecomputedModule*>(named.value().get());
    if (block != nullptr && !is_inside(named.key(), modules)) modules.emplace_back(named.key(), block);
  }
  return modules;
}

BudgetedModules budgeted_modules(const torch::nn::Module& module, const Options& options) {
  FSDP_CHECK(options.activation_memory >= 0, "shard: found activation_memory {}, expected bytes, or 0 for any number",
             options.activation_memory);
  if (options.activation_memory == 0) return {};
  FSDP_CHECK(
      !options.offload_activations,
      "shard: activation_memory is {} and offload_activations is set: the budget is for activations that stay in "
      "memory. Leave one out.",
      options.activation_memory);
  BudgetedModules modules = recomputed_modules(module);
  for (const auto& [name, block] : modules) {
    FSDP_CHECK(block->recomputation().keep == KeptResults::None,
               "shard: options.activation_memory and set_recomputation both decide what block {} keeps. Leave out "
               "activation_memory, or `keep` of the block.",
               name);
  }
  FSDP_CHECK(!modules.empty(),
             "shard: activation_memory is {}, and the module has no Recomputed block that could run again. Make its "
             "blocks as fsdp::Recomputed<BlockImpl> (fsdp/activation_checkpoint.h).",
             options.activation_memory);
  return modules;
}

std::vector<std::string> block_names(const BudgetedModules& modules) {
  std::vector<std::string> names;
  for (const auto& [name, module] : modules) names.push_back(name);
  return names;
}

void give_budgets(const BudgetedModules& modules, const engine::ActivationBudget::Blocks& blocks) {
  for (size_t i = 0; i < modules.size(); ++i) modules[i].second->set_budget(blocks[i].second);
}

void check_no_budget(const Options& options) {
  FSDP_CHECK(
      options.activation_memory == 0,
      "shard: activation_memory is {}, and decides about the Recomputed blocks of a torch::nn::Module, which this "
      "model is not. Leave it out.",
      options.activation_memory);
}

}  // namespace fsdp
