#include "pipeline/sharded_pipeline.h"

#include <gtest/gtest.h>

#include <utility>

#include "support/run_ranks.h"

namespace fsdp::testing_models {

namespace {

Pipeline seeded_pipeline(const FormCase& form, World axis, const PipelineOptions& options) {
  torch::manual_seed(1);
  return Pipeline(form.blocks, std::move(axis), options);
}

}  // namespace

FormCase tied_stages() {
  FormCase form = four_layers({});
  form.blocks[3].shares = {{"weight", "a.weight"}, {"bias", "a.bias"}};
  return form;
}

ShardedPipeline::ShardedPipeline(const FormCase& form, World pipeline_axis, World data_axis, const Options& options,
                                 const PipelineOptions& pipeline_options)
    : pipeline(seeded_pipeline(form, std::move(pipeline_axis), pipeline_options)),
      sharded(shard(pipeline.stage(), data_axis, options)) {}

double ShardedPipeline::step() {
  const Tensors batches{input_of(1), input_of(2), input_of(3)};
  return pipeline.step(batches, batches, square_sum);
}

void expect_alike(const FormCase& form, const ShardedProgram& program, const AlikeOptions& how) {
  fsdp::testing::run_ranks(fsdp::testing::Job{4, how.backend}, [&](World& world) {
    const Mesh mesh(world, {{"pipeline", 2}, {"data", 2}});
    ShardedPipeline divided(form, mesh["pipeline"], mesh["data"], how.options, how.pipeline);
    const std::vector<double> found = program(divided);
    ShardedPipeline plain(form, world.split(world.rank()), mesh["data"], how.plain.value_or(how.options));
    EXPECT_EQ(found, program(plain));
    const auto expected = plain.sharded.full_state();
    size_t compared = 0;
    const auto weights = divided.sharded.full_state();
    for (const auto& [name, weight] : weights) {
      for (const auto& [other, value] : expected) {
        if (other != name) continue;
        EXPECT_TRUE(torch::equal(weight, value)) << name;
        ++compared;
      }
    }
    EXPECT_EQ(compared, weights.size());
  });
}

}  // namespace fsdp::testing_models
