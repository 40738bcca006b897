#include "training/step_data.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fsdp/random.h>

namespace trainer {

int64_t rounds_of(const Training& training) {
  const int64_t ranks = training.mesh.data().size();
  return (training.options.micro_batches_of_step() + ranks - 1) / ranks;
}

data::Batch read_micro_batch(const Training& training, int64_t steps_done, int64_t number) {
  const RunOptions& options = training.options;
  const data::StepShape shape = options.step_shape();
  const auto starts = training.order.window_starts(shape, steps_done, number % shape.ranks, number / shape.ranks);
  return data::make_batch(*training.corpus.training, starts, options.model.context, options.model.vocabulary);
}

bool has_dropout(const models::ModelConfig& model) {
  return model.embedding_dropout > 0 || model.attention_dropout > 0 || model.residual_dropout > 0 ||
         (model.lora && model.lora->dropout > 0);
}

void seed_step(const RunOptions& options, int64_t steps_done) {
  fsdp::seed_micro_batch(static_cast<uint64_t>(options.seed), steps_done + 1, /*micro_batch=*/0);
}

uint64_t draw_number_of_step(const RunOptions& options, int64_t steps_done) {
  seed_step(options, steps_done);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

}  // namespace trainer
