// The model that is trained: whole on each rank, or divided into stages. The rest of a run makes the same calls of
// both.
#pragma once

#include <fsdp/pipeline.h>
#include <fsdp/sharded_model.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "data/batch.h"
#include "generation/writer.h"
#include "models/key_value_cache.h"
#include "models/model_config.h"
#include "training/run_mesh.h"

namespace trainer {

struct Training;

// This rank's passes of a step.
struct StepPasses {
  std::vector<torch::Tensor> losses;  // of the micro-batches of its data rank
  double data_seconds = 0;            // of reading data
  double wait_seconds = 0;            // for other ranks
};

class TrainedModel {
 public:
  explicit TrainedModel(models::ModelConfig config) : config_(std::move(config)) {}
  virtual ~TrainedModel() = default;
  TrainedModel(const TrainedModel&) = delete;
  TrainedModel& operator=(const TrainedModel&) = delete;

  // The shape of the whole model.
  const models::ModelConfig& config() const { return config_; }
  // The parameters of this rank, to be sharded over the data ranks.
  virtual torch::nn::Module& module() = 0;
  // Leaves these parameters of the whole model untrained. Before it is sharded: then they get no gradients.
  virtual void freeze(const std::set<std::string>& names) = 0;

  // Runs forward and backward of the data rank's micro-batches of a step, and adds to the gradients of the sum over
  // micro-batches. Does not wait for a GPU longer than the passes do. A collective.
  virtual StepPasses run_step(Training& training, int64_t steps_done) = 0;
  // The mean losses of these batches, without gradients. All data ranks have as many batches. A collective.
  virtual std::vector<torch::Tensor> losses(const std::vector<data::Batch>& batches) = 0;
  // Batches of `losses` with which no rank is idle for long.
  virtual int64_t batches_at_once() const = 0;
  // As LanguageModel::next_token_logits with a cache. A collective.
  virtual torch::Tensor next_token_logits(const torch::Tensor& tokens, models::KeyValueCache& cache) = 0;
  // A trace of this rank: of the sharded model, and of the pipeline if there is one.
  virtual fsdp::Trace trace(fsdp::ShardedModel& sharded, const fsdp::TraceOptions& options) {
    return sharded.trace(options);
  }
  // Facts of the last step; null: there are no stages.
  virtual const fsdp::PipelineReport* pipeline_report() const { return nullptr; }
  // Pipeline::idle_share_of_passes, for models with a report.
  virtual double idle_share_of_passes() { return 0; }

 private:
  models::ModelConfig config_;
};

// The model that the options ask for, with deferred parameters. A collective.
std::unique_ptr<TrainedModel> make_trained_model(const RunOptions& options, RunMesh& mesh);

// For generate_together.
WritingModel writing_model(TrainedModel& model);

// The parameter of the whole model that this one is, or is a copy of: a stage has a tied head of its own.
std::string name_in_whole_model(const models::ModelConfig& config, const std::string& parameter);

}  // namespace trainer
