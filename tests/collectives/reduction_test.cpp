#include "collectives/reduction.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace fsdp::collectives {
namespace {

using Tensors = std::vector<torch::Tensor>;

// Values whose sum depends on the order, in each dtype.
Tensors parts_of(int64_t count, torch::ScalarType dtype) {
  const double largest = dtype == torch::kHalf ? 1 << 12 : 1 << 24;
  Tensors parts;
  for (int64_t i = 0; i < count; ++i) {
    const double large = i == 0 ? largest : i == count - 1 ? -largest : 1;
    parts.push_back(torch::tensor({large, 0.1 * static_cast<double>(i + 1), 1.0, 0.0}).to(dtype));
  }
  return parts;
}

Tensors copies_of(const Tensors& parts) {
  Tensors copies;
  for (const torch::Tensor& part : parts) copies.push_back(part.clone());
  return copies;
}

TEST(WholeTensorReduction, AddsInRankOrder) {
  const Tensors parts = {torch::tensor({1.0f}), torch::tensor({16777216.0f}), torch::tensor({-16777216.0f})};
  EXPECT_EQ(reduce_in_order(parts, ReduceOp::Sum).item<float>(), 0.0f);
  const Tensors others = {parts[1], parts[2], parts[0]};
  EXPECT_EQ(reduce_in_order(others, ReduceOp::Sum).item<float>(), 1.0f);
}

// Wherever this rank's part is among the parts: the same bits as in new memory.
TEST(WholeTensorReduction, InPlaceHasTheBitsOfTheOrder) {
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Max, ReduceOp::Min}) {
    for (const torch::ScalarType dtype : {torch::kFloat32, torch::kFloat64, torch::kBFloat16, torch::kHalf}) {
      for (int64_t count = 1; count <= 4; ++count) {
        const Tensors parts = parts_of(count, dtype);
        const torch::Tensor expected = reduce_in_order(parts, op);
        for (int64_t own = 0; own < count; ++own) {
          const Tensors copies = copies_of(parts);
          reduce_in_place(copies[static_cast<size_t>(own)], copies, op);
          EXPECT_TRUE(copies[static_cast<size_t>(own)].equal(expected))
              << name_of(op) << " of " << c10::toString(dtype) << ", part " << own << " of " << count;
        }
        const torch::Tensor elsewhere = torch::empty_like(parts[0]);
        reduce_in_place(elsewhere, copies_of(parts), op);
        EXPECT_TRUE(elsewhere.equal(expected)) << name_of(op) << " of " << c10::toString(dtype) << ", elsewhere";
      }
    }
  }
}

TEST(WholeTensorReduction, InPlaceOfBoolsIsOr) {
  const Tensors parts = {torch::tensor({false, true, false}), torch::tensor({false, true, true})};
  reduce_in_place(parts[1], parts, ReduceOp::Sum);
  EXPECT_TRUE(parts[1].equal(torch::tensor({false, true, true})));
}

}  // namespace
}  // namespace fsdp::collectives
