#include <memory>
#include <utility>

#include "api/budgeted_modules.h"
#include "base/error.h"
#include "fsdp/activations.h"
#include "interpose/measured_blocks.h"

namespace fsdp {

namespace {

// Measures the blocks while it lives.
class BlocksMeasured {
 public:
  BlocksMeasured(BudgetedModules modules, const std::shared_ptr<interpose::MeasuredBlocks>& measured)
      : modules_(std::move(modules)) {
    for (size_t i = 0; i < modules_.size(); ++i) {
      modules_[i].second->set_budget(std::make_shared<engine::BlockBudget>(measured, i));
    }
  }
  ~BlocksMeasured() {
    for (const auto& [name, module] : modules_) module->set_budget(nullptr);
  }
  BlocksMeasured(const BlocksMeasured&) = delete;
  BlocksMeasured& operator=(const BlocksMeasured&) = delete;

 private:
  BudgetedModules modules_;
};

}  // namespace

RecomputedStorages preview_recomputation(torch::nn::Module& module, const std::function<torch::Tensor()>& run) {
  const BudgetedModules modules = recomputed_modules(module);
  FSDP_CHECK(!modules.empty(), "preview_recomputation: the module has no Recomputed block, expected one at least");
  for (const auto& [name, block] : modules) {
    FSDP_CHECK(block->budget() == nullptr,
               "preview_recomputation: block {} is in a model that is sharded with "
               "activation_memory. Ask ShardedModel::activation_decision().",
               name);
  }
  std::vector<interpose::ActivationCount::Moment> moments;
  std::vector<size_t> open_at;
  const auto count = std::make_shared<interpose::ActivationCount>(/*units=*/1, &moments);
  const auto measured = std::make_shared<interpose::MeasuredBlocks>(modules.size(), count);
  measured->tell_moments(moments, open_at);
  for (const torch::Tensor& parameter : module.parameters()) {
    count->leave_out(parameter);
    measured->leave_out(parameter);
  }
  const auto keeper = interpose::counting_keeper(count, /*unit=*/0);
  {
    const BlocksMeasured blocks(modules, measured);
    const interpose::SavedTensorsScope scope(keeper.get());
    interpose::watch_saved_tensors(keeper);  // what checkpoints keep outside of their own scopes
    const torch::Tensor result = run();
    interpose::watch_saved_tensors(nullptr);
  }
  const interpose::MeasuredBlocks::Facts facts = measured->facts();
  count->end_moments();
  measured->end_moments();
  RecomputedStorages storages;
  storages.blocks.resize(facts.called);
  for (size_t i = 0; i < modules.size(); ++i) {
    const interpose::MeasuredBlocks::Block& block = facts.blocks[i];
    if (!block.place) continue;
    storages.blocks[*block.place] = {.name = modules[i].first,
                                     .products = block.most.products,
                                     .all = block.most.all,
                                     .unsaved_products = block.most.unsaved_products};
  }
  for (size_t i = 0; i < open_at.size(); ++i) storages.moments.push_back({open_at[i], std::move(moments[i].in_memory)});
  return storages;
}

}  // namespace fsdp
