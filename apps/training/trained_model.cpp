#include "training/trained_model.h"

#include "models/block_costs.h"
#include "training/trained_stages.h"
#include "training/trained_whole.h"

namespace trainer {

std::unique_ptr<TrainedModel> make_trained_model(const RunOptions& options, RunMesh& mesh) {
  if (mesh.has_stages()) return std::make_unique<TrainedStages>(options, mesh);
  return std::make_unique<TrainedWhole>(options, mesh);
}

WritingModel writing_model(TrainedModel& model) {
  WritingModel writing(model.config(), model.module());
  writing.next_token_logits = [&model](const torch::Tensor& tokens, models::KeyValueCache& cache) {
    return model.next_token_logits(tokens, cache);
  };
  return writing;
}

std::string name_in_whole_model(const models::ModelConfig& config, const std::string& parameter) {
  const std::vector<models::ModelBlock> blocks = models::blocks(config);
  const bool is_copy = config.tied_embeddings && parameter == blocks.back().name + ".weight";
  return is_copy ? blocks.front().name + ".weight" : parameter;
}

}  // namespace trainer
