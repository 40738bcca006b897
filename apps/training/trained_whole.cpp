#include "training/trained_whole.h"

#include <fsdp/random.h>

#include <chrono>

#include "training/step_data.h"

namespace trainer {

TrainedWhole::TrainedWhole(const RunOptions& options, const RunMesh& mesh)
    : TrainedModel(options.model),
      device_(mesh.device()),
      model_(models::make_deferred_model(options.model, device_, mesh.division())) {
  model_->set_recomputation(options.recomputation());
}

void TrainedWhole::freeze(const std::set<std::string>& names) {
  for (auto& parameter : model_->named_parameters()) {
    if (names.contains(parameter.key())) parameter.value().set_requires_grad(false);
  }
}

// Runs the micro-batch's forward and backward. Does not wait for a GPU.
void TrainedWhole::run_micro_batch(Training& training, int64_t steps_done, int64_t number, StepPasses& passes) {
  using Clock = std::chrono::steady_clock;
  const RunOptions& options = training.options;
  training.phase.enter("forward and backward", steps_done + 1, number + 1);
  const Clock::time_point begin = Clock::now();
  const data::Batch batch = read_micro_batch(training, steps_done, number);
  passes.data_seconds += std::chrono::duration<double>(Clock::now() - begin).count();
  std::function<void(int)> seed_block = nullptr;
  if (has_dropout(options.model)) {
    seed_block = [number, of_step = draw_number_of_step(options, steps_done)](int block) {
      fsdp::seed_micro_batch(of_step, number, block);
    };
  }
  const torch::Tensor loss =
      model_->loss(data::to_device(batch.tokens, device_), data::to_device(batch.targets, device_), seed_block);
  training.scaler.scale(loss).backward();  // the module itself, as ever
  passes.losses.push_back(loss.detach());
}

StepPasses TrainedWhole::run_step(Training& training, int64_t steps_done) {
  const fsdp::World& data = training.mesh.data();
  const int64_t ranks = data.size(), all = training.options.micro_batches_of_step();
  const double waited_before = training.sharded.communication().wait_seconds;
  StepPasses passes;
  for (int64_t round = 0; round < rounds_of(training); ++round) {
    const int64_t number = round * ranks + data.rank();
    const bool is_whole = (round + 1) * ranks <= all, has_one = number < all;
    if (!is_whole) training.sharded.any_rank_has_batch(has_one);
    if (has_one) {
      run_micro_batch(training, steps_done, number, passes);
    } else {
      training.sharded.backward_without_batch();
    }
  }
  passes.wait_seconds = training.sharded.communication().wait_seconds - waited_before;
  return passes;
}

std::vector<torch::Tensor> TrainedWhole::losses(const std::vector<data::Batch>& batches) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> losses;
  for (const data::Batch& batch : batches) {
    losses.push_back(model_->loss(data::to_device(batch.tokens, device_), data::to_device(batch.targets, device_)));
  }
  return losses;
}

}  // namespace trainer
