// The peak of all tensors of a step from a model's operators, beside that of LibTorch's allocator.
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "apps/planning/graph_runs.h"
#include "apps/planning/live_tensors.h"
#include "models/language_model.h"
#include "plan/tensor_peak.h"
#include "planning/generator_kept.h"
#include "planning/one_thread.h"
#include "planning/planned_tensors.h"
#include "planning/run_graphs.h"
#include "run/sharding.h"
#include "support/run_ranks.h"
#include "training/tensor_memory.h"

namespace trainer {
namespace {

using fsdp::plan::ParameterGradients;

constexpr int64_t kLength = 127;

// True for a tensor of the model. All others are memory of kernels, such as copies of a product's operands in 16 bits,
// and states of generators: no length of sequences divides their bytes.
bool is_of_model(int64_t bytes, const std::set<int64_t>& parameters) {
  return bytes % kLength == 0 || parameters.contains(bytes);
}

// The most bytes of the tensors of a pass.
template <typename Pass>
double measured_peak(const RunOptions& options, const Pass& pass) {
  const GeneratorKept generator;
  const OneThread one_thread;
  const auto model = models::make_model(options.model);
  model->set_recomputation(options.recomputation());
  model->to(compute_dtype_of(options));
  std::set<int64_t> parameters;
  for (const torch::Tensor& parameter : model->parameters())
    parameters.insert(static_cast<int64_t>(parameter.nbytes()));
  const std::vector<int64_t> shape = {options.batch, options.model.context};
  const torch::Tensor tokens = torch::zeros(shape, torch::kInt64), targets = torch::zeros(shape, torch::kInt64);
  const LiveTensors live;
  pass(*model, tokens, targets);
  double most = 0;
  for (const LiveTensors::Moment& moment : live.moments()) {
    double sum = 0;
    for (const auto& [bytes, number] : moment)
      sum += is_of_model(bytes, parameters) ? static_cast<double>(bytes) * static_cast<double>(number) : 0;
    most = std::max(most, sum);
  }
  return most + static_cast<double>(tokens.nbytes() + targets.nbytes());
}

// A step without sharding, with the gradients of all parameters.
double measured_peak(const RunOptions& options) {
  return measured_peak(options, [](models::LanguageModel& model, const auto& tokens, const auto& targets) {
    model.loss(tokens, targets).backward();
  });
}

double planned_peak(const RunOptions& options) {
  return static_cast<double>(
      tensor_peak_bytes(run_graphs(options, false), kept_by_layers(options), ParameterGradients::OfAutograd));
}

void expect_about(double planned, double measured) {
  EXPECT_NEAR(planned, measured, 0.01 * measured) << planned / measured;
}

NamedModel with_larger_sizes(NamedModel model) {
  model.config.context = kLength;
  model.config.width = 120;
  model.config.mlp_width.reset();
  if (model.config.head_width) model.config.head_width = 40;
  return model;
}

class GraphTensors : public ::testing::TestWithParam<NamedModel> {};

// Not to the byte: small tensors of single operators are not in the graphs. With few entries of the vocabulary the peak
// is that of a layer, otherwise that of the head.
TEST_P(GraphTensors, ArePlannedWithinAPercent) {
  for (const int64_t vocabulary : {61, 2000}) {
    NamedModel model = with_larger_sizes(GetParam());
    model.config.vocabulary = vocabulary;
    SCOPED_TRACE(fmt::format("a vocabulary of {}", vocabulary));
    for_each_run(model, [](const RunOptions& options) { expect_about(planned_peak(options), measured_peak(options)); });
  }
}

// Locals of functions do not end in the order of the graph.
TEST_P(GraphTensors, OfAnEvaluationArePlannedWithinATenth) {
  NamedModel model = with_larger_sizes(GetParam());
  model.config.vocabulary = 2000;
  for_each_run(model, [](RunOptions options) {
    options.eval_only = true;
    const double measured =
        measured_peak(options, [](models::LanguageModel& of, const auto& tokens, const auto& targets) {
          const torch::NoGradGuard no_grad;
          of.eval();
          of.loss(tokens, targets);
        });
    const double planned = planned_tensor_bytes(options, false);
    EXPECT_NEAR(planned, measured, 0.1 * measured) << planned / measured;
  });
}

// A sharded model writes gradients of parameters into its buffers, those of an embedding excepted.
void expect_sharded_peak(fsdp::World& world, RunOptions options) {
  const OneThread one_thread;
  options.ranks = world.size();
  const auto model = models::make_model(options.model);
  model->set_recomputation(options.recomputation());
  auto sharded = fsdp::shard(*model, world, sharding_of(options));
  fsdp::AdamW optimizer(sharded);
  const std::vector<int64_t> shape = {options.batch, options.model.context};
  double measured = 0;
  for (int step = 0; step < 2; ++step) {  // the first one makes buffers
    TensorMemory in_step(torch::kCPU);
    in_step.begin_step();
    const torch::Tensor tokens = torch::zeros(shape, torch::kInt64), targets = torch::zeros(shape, torch::kInt64);
    model->loss(tokens, targets).backward();
    measured = static_cast<double>(in_step.peak_bytes());
    optimizer.step();
    optimizer.zero_grad();
  }
  expect_about(static_cast<double>(tensor_peak_bytes(run_graphs(options, false), kept_by_layers(options),
                                                     ParameterGradients::InBuffers)),
               measured);
}

TEST(GraphTensorsOf, AShardedModel) {
  fsdp::testing::run_ranks(2, [](fsdp::World& world) {
    for (const NamedModel& sample : {sample_models()[0], sample_models()[4]}) {
      for (const char* recomputed : {"none", "all", "selective"}) {
        SCOPED_TRACE(fmt::format("{}, {} recomputed", sample.name, recomputed));
        RunOptions options;
        options.model = with_larger_sizes(sample).config;
        options.model.vocabulary = 2000;
        options.activation_checkpoint = recomputed;
        options.batch = 4;
        expect_sharded_peak(world, options);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Models, GraphTensors, drawn_sample_models(), name_of_sample);

}  // namespace
}  // namespace trainer
