// The model that is trained, whole on each rank but for divided layers.
#pragma once

#include "models/language_model.h"
#include "training/trained_model.h"

namespace trainer {

class TrainedWhole final : public TrainedModel {
 public:
  TrainedWhole(const RunOptions& options, const RunMesh& mesh);

  torch::nn::Module& module() override { return *model_; }
  void freeze(const std::set<std::string>& names) override;
  StepPasses run_step(Training& training, int64_t steps_done) override;
  std::vector<torch::Tensor> losses(const std::vector<data::Batch>& batches) override;
  int64_t batches_at_once() const override { return 1; }
  torch::Tensor next_token_logits(const torch::Tensor& tokens, models::KeyValueCache& cache) override {
    return model_->next_token_logits(tokens, cache);
  }

 private:
  void run_micro_batch(Training& training, int64_t steps_done, int64_t number, StepPasses& passes);

  torch::Device device_;
  std::shared_ptr<models::LanguageModel> model_;
};

}  // namespace trainer
