// Outputs of a pipeline's last stage, and checkpoints of stages.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "apps/models/small_models.h"
#include "models/pipeline_blocks.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace models {
namespace {

using fsdp::Mesh;
using fsdp::World;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::HasSubstr;

class StagesOfModels : public SmallModels {};
INSTANTIATE_TEST_SUITE_P(Families, StagesOfModels, all_small_models(), name_of_case);

fsdp::ShardedModel with_units_over(torch::nn::Module& module, World data) {
  return fsdp::shard(module, data, {.units = units_of_layers(module)});
}

// Loss and logits of outputs, as an evaluation and a sample need them.
TEST_P(StagesOfModels, GiveLossAndLogits) {
  run_ranks(4, [](World& world) {
    const auto plain = make_small(GetParam());
    plain->eval();
    const Mesh mesh(world, {{"data", 2}, {"pipeline", 2}});
    torch::manual_seed(1);
    const PipelinedModel model(GetParam().config());
    fsdp::Pipeline pipeline = fsdp::deferred_init([&] { return fsdp::Pipeline(model.blocks(), mesh["pipeline"]); });
    const fsdp::ShardedModel sharded = with_units_over(pipeline.stage(), mesh["data"]);
    pipeline.stage().eval();
    const torch::NoGradGuard no_grad;
    for (const int64_t length : {12, 5}) {
      const SmallBatch batch = small_batch(2, length), other = small_batch(1, length);
      const fsdp::Tensors outputs = pipeline.forward({batch.tokens, other.tokens});
      if (mesh.coordinate("pipeline") == 0) {
        EXPECT_TRUE(outputs.empty());
        continue;
      }
      EXPECT_TRUE(torch::equal(model.loss(outputs[0], batch.targets), plain->loss(batch.tokens, batch.targets)));
      EXPECT_TRUE(torch::equal(model.next_token_logits(outputs[1]), plain->next_token_logits(other.tokens)));
      EXPECT_TRUE(torch::allclose(model.next_token_logits(outputs[1], 2),
                                  plain->next_token_logits(other.tokens.narrow(1, 0, 3)), 1e-5, 1e-5));
    }
  });
}

// With whole shapes and the names of the plain model; the copy of a tied head is left out.
TEST_P(StagesOfModels, SaveCheckpointsThatAPlainModelLoads) {
  const fsdp::testing::ScratchDirectory scratch;
  run_ranks(4, [&](World& world) {
    const Mesh mesh(world, {{"data", 1}, {"pipeline", 2}, {"tensor", 2}});
    torch::manual_seed(1);
    const PipelinedModel model(GetParam().config(), {.tensor = mesh["tensor"], .parts = 2});
    fsdp::Pipeline pipeline = fsdp::deferred_init([&] { return fsdp::Pipeline(model.blocks(), mesh["pipeline"]); });
    fsdp::ShardedModel sharded = with_units_over(pipeline.stage(), mesh["data"]);
    fsdp::save_checkpoint(scratch.path() / "saved", {.model = &sharded, .mesh = mesh});
  });
  run_ranks(1, [&](World& world) {
    const auto expected = make_small(GetParam()), found = make_model(GetParam().config());
    fsdp::ShardedModel sharded = with_units_over(*found, world);
    fsdp::load_checkpoint(scratch.path() / "saved", {.model = &sharded});
    const auto scope = sharded.full_parameters();
    const auto wanted = expected->named_parameters();
    for (const auto& parameter : found->named_parameters())
      EXPECT_TRUE(torch::equal(parameter.value(), wanted[parameter.key()])) << parameter.key();
  });
}

// The results that each layer keeps, in the order of the layers.
std::vector<fsdp::KeptResults> kept_by_layers(const torch::nn::Module& module) {
  std::vector<fsdp::KeptResults> kept;
  for (const auto& one : module.modules(/*include_self=*/false)) {
    const auto* layer = dynamic_cast<const fsdp::RecomputedModule*>(one.get());
    if (layer != nullptr) kept.push_back(layer->recomputation().keep);
  }
  return kept;
}

TEST(ModelInAPipeline, RecomputesTheLayersOfThePlainModel) {
  run_ranks(1, [](World& world) {
    const SmallModel small;
    const auto plain = make_small(small);
    for (const Recomputation& recomputation :
         {Recomputation{}, Recomputation{.blocks = 2}, Recomputation{.blocks = 1, .keeps_products = true}}) {
      plain->set_recomputation(recomputation);
      fsdp::Pipeline pipeline(PipelinedModel(small.config(), {}, recomputation).blocks(), world);
      EXPECT_EQ(kept_by_layers(pipeline.stage()), kept_by_layers(*plain));
    }
  });
}

TEST(ModelInAPipeline, HasItsHeadOnTheLastStage) {
  run_ranks(2, [](World& world) {
    const PipelinedModel model(SmallModel{}.config());
    fsdp::Pipeline pipeline(model.blocks(), world);
    if (world.rank() == 1) return;
    EXPECT_THAT(message_of<fsdp::Error>([&] {
                  model.loss(torch::zeros({1, 2, 32}), torch::zeros({1, 2}));
                }),
                HasSubstr("this rank has no head"));
  });
}

TEST(ModelInAPipeline, IsRefusedForAConfigThatNoModelCanHave) {
  EXPECT_THAT(message_of<fsdp::Error>([] { PipelinedModel({.vocabulary = 0}); }), HasSubstr("vocabulary is 0"));
}

}  // namespace
}  // namespace models
