#include "models/division_problems.h"

#include <gmock/gmock.h>

namespace models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ModelConfig eight_heads() {
  return {.family = Family::Llama,
          .vocabulary = 100,
          .context = 24,
          .width = 64,
          .layers = 2,
          .heads = 8,
          .key_value_heads = 4,
          .mlp_width = 64};
}

TEST(DivisionProblems, AreNoneForPartsThatDivide) {
  for (const int parts : {1, 2, 4, 8}) EXPECT_THAT(division_problems(eight_heads(), {.parts = parts}), IsEmpty());
}

TEST(DivisionProblems, NameTheSizeAndThePartsThatWouldDo) {
  EXPECT_THAT(division_problems(eight_heads(), {.ranks = 2, .parts = 3}),
              ElementsAre("found 3 parts on 2 ranks, expected a multiple. Use 2, 4, 8 parts."));
  EXPECT_THAT(division_problems(eight_heads(), {.ranks = 2, .parts = 16}),
              ElementsAre("16 parts do not divide heads, which is 8. Use 2, 4, 8 parts."));
  ModelConfig config = eight_heads();
  config.mlp_width = 36;
  EXPECT_THAT(division_problems(config, {.parts = 8}),
              ElementsAre("8 parts do not divide mlp_width, which is 36. Use 1, 2, 4 parts."));
  config.heads = 12, config.key_value_heads = 6;
  EXPECT_THAT(division_problems(config, {.ranks = 4, .parts = 4}),
              ElementsAre("key_value_heads is 6, no multiple or divisor of 4 parts. Use 12 parts."));
  config = eight_heads();
  config.context = 20;
  EXPECT_THAT(division_problems(config, {.parts = 8, .sequence_parallel = true}),
              ElementsAre(HasSubstr("8 parts do not divide context, which is 20")));
  config.vocabulary = 3;
  EXPECT_THAT(division_problems(config, {.ranks = 4, .parts = 4}),
              ElementsAre("vocabulary is 3, fewer than 4 parts. No number of parts fits 4 ranks. Use fewer ranks."));
}

TEST(DivisionProblems, RefuseAdapters) {
  ModelConfig config = eight_heads();
  config.lora = Lora{.targets = {"q_proj"}};
  EXPECT_THAT(division_problems(config, {.parts = 2}), ElementsAre(HasSubstr("lora is set")));
}

}  // namespace
}  // namespace models
