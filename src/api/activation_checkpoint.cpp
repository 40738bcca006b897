#include "fsdp/activation_checkpoint.h"

#include "interpose/recomputation.h"

namespace fsdp::detail {

struct CheckpointedForward::Scope {
  explicit Scope(std::shared_ptr<interpose::CheckpointedCall> of)
      : call(std::move(of)),
        saved(call.get()),
        results(call->kept_results(), interpose::KeptResultsScope::Run::First) {}

  std::shared_ptr<interpose::CheckpointedCall> call;
  interpose::SavedTensorsScope saved;
  interpose::KeptResultsScope results;
};

CheckpointedForward::CheckpointedForward(const ActivationCheckpointOptions& options, std::vector<torch::Tensor> inputs,
                                         RunAgain again)
    : scope_(std::make_unique<Scope>(std::make_shared<interpose::CheckpointedCall>(
          inputs, interpose::CheckpointedFunction{.run_again = std::move(again),
                                                  .buffers = options.buffers,
                                                  .stop_early = options.stop_early,
                                                  .keeps_products = options.keep == KeptResults::Products}))) {}

void CheckpointedForward::returned(const torch::Tensor& tensor) const { scope_->call->returned(tensor); }

CheckpointedForward::~CheckpointedForward() {
  const std::shared_ptr<interpose::CheckpointedCall> call = scope_->call;
  scope_.reset();
  call->forward_ends();
}

}  // namespace fsdp::detail
