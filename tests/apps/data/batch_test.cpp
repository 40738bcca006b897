#include "data/batch.h"

#include <gtest/gtest.h>

namespace trainer {
namespace {

TEST(Batch, TargetsAreOneByteLater) {
  const Batch batch = make_batch("abcdefgh\xff", {0, 4}, 4);
  EXPECT_TRUE(torch::equal(batch.tokens, torch::tensor({{'a', 'b', 'c', 'd'}, {'e', 'f', 'g', 'h'}}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(batch.targets, torch::tensor({{'b', 'c', 'd', 'e'}, {'f', 'g', 'h', 255}}, torch::kInt64)));
}

}  // namespace
}  // namespace trainer
