#include "fsdp/activation_checkpoint.h"

#include "base/error.h"
#include "engine/block_budget.h"
#include "interpose/recomputation.h"

namespace fsdp::detail {

struct CheckpointedForward::Scope {
  explicit Scope(std::shared_ptr<interpose::CheckpointedCall> of)
      : call(std::move(of)),
        saved(call.get()),
        results(call->first_results(), interpose::KeptResultsScope::Run::First) {}

  std::shared_ptr<interpose::CheckpointedCall> call;
  interpose::SavedTensorsScope saved;
  interpose::KeptResultsScope results;
};

CheckpointedForward::CheckpointedForward(const ActivationCheckpointOptions& options,
                                         const std::shared_ptr<engine::BlockBudget>& budget,
                                         // NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is public
                                         std::vector<torch::Tensor> inputs, RunAgain again)
    : scope_(std::make_unique<Scope>(std::make_shared<interpose::CheckpointedCall>(
          inputs, interpose::CheckpointedFunction{.run_again = std::move(again),
                                                  .buffers = options.buffers,
                                                  .stop_early = options.stop_early,
                                                  .keeps_products = options.keep == KeptResults::Products,
                                                  .keeps = options.keeps,
                                                  .measured = budget ? budget->measured() : nullptr,
                                                  .measured_block = budget ? budget->number() : 0}))) {}

void CheckpointedForward::returned(const torch::Tensor& tensor) const { scope_->call->returned(tensor); }

CheckpointedForward::~CheckpointedForward() {
  const std::shared_ptr<interpose::CheckpointedCall> call = scope_->call;
  scope_.reset();
  call->forward_ends();
}

}  // namespace fsdp::detail

namespace fsdp {

void RecomputedModule::set_recomputation(ActivationCheckpointOptions options) {
  FSDP_CHECK(!budget_ || options.keep == KeptResults::None,
             "set_recomputation: Options::activation_memory decides what this block keeps, found a `keep` as well. "
             "Leave `keep` out, or shard the model without activation_memory.");
  options_ = std::move(options);
}

ActivationCheckpointOptions RecomputedModule::options_of_call(int64_t input_bytes) const {
  if (!torch::GradMode::is_enabled()) return {.keep = KeptResults::All};
  ActivationCheckpointOptions options = options_;
  if (budget_) options.keep = budget_->kept_by_call(input_bytes);
  return options;
}

}  // namespace fsdp
