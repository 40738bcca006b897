// Models in the stages of a pipeline: the bits of a plain model in one process.
#include "models/pipeline_blocks.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "api/tensor_parallel/parallel_models.h"
#include "apps/models/small_models.h"
#include "support/run_ranks.h"

namespace models {
namespace {

using fsdp::Mesh;
using fsdp::World;
using fsdp::parallel_models::divisions_of;
using fsdp::parallel_models::part_of;
using fsdp::testing::run_ranks;

class PipelinedModels : public SmallModels {};
INSTANTIATE_TEST_SUITE_P(Families, PipelinedModels, all_small_models(), name_of_case);

constexpr int kStepCount = 2, kBatchCount = 4;  // a power of two: a mean of means has the same bits

struct PipelineCase {
  int data = 1, pipeline = 1, tensor = 1;
  Division division = {};  // without ranks
  Recomputation recomputation = {};
  std::set<std::string> frozen = {};
  fsdp::PipelineOptions options = {};
};

using Divisions = std::map<std::string, fsdp::ParameterDivision>;

// Everything that a training gives.
struct TrainedModel {
  std::vector<double> losses;
  fsdp::NamedTensors first, weights;  // before and after
  torch::Tensor generator;            // its state at the end
  Divisions divisions;
};

uint64_t draw_number() {
  auto generator = at::detail::getDefaultCPUGenerator();
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

fsdp::ShardedModel sharded_over(torch::nn::Module& module, World data) {
  return fsdp::shard(module, data, {.units = units_of_layers(module)});
}

// The plain model in one process, seeded as a pipeline seeds its blocks.
TrainedModel train_plainly(const SmallModel& small, World alone, const PipelineCase& one) {
  Division division = one.division;
  if (one.tensor > 1) division.tensor = alone;
  const auto model = make_small(small, division);
  for (auto& parameter : model->named_parameters())
    parameter.value().set_requires_grad(!one.frozen.contains(parameter.key()));
  fsdp::ShardedModel sharded = sharded_over(*model, alone);
  sharded.set_gradient_divisor(kBatchCount);
  fsdp::AdamW optimizer(sharded, {.lr = 1e-2});
  TrainedModel trained{.losses = {}, .first = sharded.full_state(), .weights = {}, .generator = {}, .divisions = {}};
  for (int step = 0; step < kStepCount; ++step) {
    const uint64_t number = draw_number();
    const torch::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
    for (int64_t i = 0; i < kBatchCount; ++i) {
      const SmallBatch batch = small_batch(step + i);
      const auto seed = [&](int block) { fsdp::seed_micro_batch(number, i, block); };
      const torch::Tensor loss = model->loss(batch.tokens, batch.targets, seed);
      trained.losses.push_back(loss.item<double>());
      loss.backward();
    }
    at::Generator(at::detail::getDefaultCPUGenerator()).set_state(state);
    trained.losses.push_back(sharded.clip_grad_norm_(0.5));
    optimizer.step();
    optimizer.zero_grad();
  }
  trained.weights = sharded.full_state();
  trained.generator = at::detail::getDefaultCPUGenerator().get_state();
  return trained;
}

// Losses of this data rank's micro-batches in the order of a whole step, 0 elsewhere.
TrainedModel train_pipelined(const SmallModel& small, const Mesh& mesh, const PipelineCase& one) {
  Division division = one.division;
  if (one.tensor > 1) division.tensor = mesh["tensor"];
  World data = mesh["data"];
  torch::manual_seed(1);
  const PipelinedModel model(small.config(), division, one.recomputation);
  fsdp::Pipeline pipeline =
      fsdp::deferred_init([&] { return fsdp::Pipeline(model.blocks(), mesh["pipeline"], one.options); });
  model.freeze(pipeline.stage(), one.frozen);
  fsdp::ShardedModel sharded = sharded_over(pipeline.stage(), data);
  fsdp::AdamW optimizer(sharded, {.lr = 1e-2});
  TrainedModel trained{.losses = {},
                       .first = sharded.full_state(),
                       .weights = {},
                       .generator = {},
                       .divisions = divisions_of(pipeline.stage())};
  for (int step = 0; step < kStepCount; ++step) {
    fsdp::Tensors tokens, targets;
    for (int64_t i = data.rank(); i < kBatchCount; i += data.size()) {
      tokens.push_back(small_batch(step + i).tokens);
      targets.push_back(small_batch(step + i).targets);
    }
    std::vector<double> losses(kBatchCount);
    size_t next = static_cast<size_t>(data.rank());
    pipeline.step(tokens, targets, [&](const torch::Tensor& output, const torch::Tensor& target) {
      const torch::Tensor loss = model.loss(output, target);
      losses.at(next) = loss.item<double>();
      next += static_cast<size_t>(data.size());
      return loss;
    });
    trained.losses.insert(trained.losses.end(), losses.begin(), losses.end());
    trained.losses.push_back(sharded.clip_grad_norm_(0.5));
    optimizer.step();
    optimizer.zero_grad();
  }
  trained.weights = sharded.full_state();
  trained.generator = at::detail::getDefaultCPUGenerator().get_state();
  return trained;
}

// A rank has some of the parameters, and of divided ones a part.
void expect_values(const fsdp::NamedTensors& found, const fsdp::NamedTensors& expected, const Divisions& divisions) {
  for (const auto& [name, value] : found) {
    const auto whole = std::ranges::find(expected, name, [](const auto& item) { return item.first; });
    if (whole == expected.end()) {
      EXPECT_EQ(name, "lm_head.weight");  // a copy
      continue;
    }
    const auto division = divisions.find(name);
    const torch::Tensor own = division == divisions.end() ? whole->second : part_of(whole->second, division->second);
    EXPECT_TRUE(torch::equal(value, own)) << name;
  }
}

void expect_bits_of_plain_model(const SmallModel& small, const PipelineCase& one) {
  run_ranks(one.data * one.pipeline * one.tensor, [&](World& world) {
    const TrainedModel expected = train_plainly(small, world.split(world.rank()), one);
    const Mesh mesh(world, {{"data", one.data}, {"pipeline", one.pipeline}, {"tensor", one.tensor}});
    const TrainedModel found = train_pipelined(small, mesh, one);
    for (size_t i = 0; i < expected.losses.size(); ++i) {
      if (found.losses.at(i) != 0) EXPECT_EQ(found.losses[i], expected.losses[i]) << i;
    }
    EXPECT_GT(std::ranges::count_if(found.losses, [](double loss) { return loss != 0; }), 0);
    expect_values(found.first, expected.first, found.divisions);
    expect_values(found.weights, expected.weights, found.divisions);
    EXPECT_TRUE(torch::equal(found.generator, expected.generator));
  });
}

TEST_P(PipelinedModels, HaveTheBitsOfAPlainModelOnAnyNumberOfStages) {
  for (int stages = 1; stages <= 4; ++stages) expect_bits_of_plain_model(GetParam(), {.pipeline = stages});
}

TEST_P(PipelinedModels, HaveTheBitsOfAPlainModelWithAdapters) {
  SmallModel adapted = GetParam();
  adapted.has_adapters = true;
  expect_bits_of_plain_model(adapted, {.pipeline = 2});
}

TEST_P(PipelinedModels, HaveTheBitsOfAPlainModelInShardedStages) {
  expect_bits_of_plain_model(GetParam(), {.data = 2, .pipeline = 2});
  expect_bits_of_plain_model(GetParam(), {.data = 2,
                                          .pipeline = 1,
                                          .recomputation = {.blocks = 2},
                                          .options = {.schedule = fsdp::PipelineSchedule::ZeroBubble}});
  expect_bits_of_plain_model(GetParam(),
                             {.pipeline = 2,
                              .recomputation = {.blocks = 9, .keeps_products = true},
                              .options = {.schedule = fsdp::PipelineSchedule::Interleaved, .stages_per_rank = 2}});
}

TEST_P(PipelinedModels, HaveTheBitsOfADividedModelInStages) {
  SmallModel even = GetParam();
  even.is_even = true;
  for (const bool sequence_parallel : {false, true}) {
    expect_bits_of_plain_model(
        even, {.pipeline = 2, .tensor = 2, .division = {.parts = 2, .sequence_parallel = sequence_parallel}});
  }
}

TEST_P(PipelinedModels, MayBeFrozenInParts) {
  const bool is_gpt2 = GetParam().family == Family::Gpt2;
  PipelineCase one{.pipeline = 2};
  one.frozen = is_gpt2 ? std::set<std::string>{"transformer.wte.weight", "transformer.h.0.ln_1.weight"}
                       : std::set<std::string>{"model.embed_tokens.weight", "model.layers.1.mlp.up_proj.weight"};
  expect_bits_of_plain_model(GetParam(), one);
}

}  // namespace
}  // namespace models
