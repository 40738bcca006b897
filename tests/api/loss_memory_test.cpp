// The memory of linear_cross_entropy is bounded, and is told beforehand.
#include <c10/core/Allocator.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>

#include "support/message_of.h"

namespace fsdp {
namespace {

using fsdp::testing::message_of;
using ::testing::HasSubstr;
using torch::Tensor;

// Bytes of tensors that are held while it lives, by operators of this thread.
class Peak : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    held_ += bytes;
    highest_ = std::max(highest_, held_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t highest() const { return highest_; }
  int64_t held() const { return held_; }

 private:
  int64_t held_ = 0, highest_ = 0;
};

template <typename Body>
Peak peak_of(const Body& body) {
  const auto peak = std::make_shared<Peak>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, peak);
  body();
  return *peak;
}

// Bytes for what has one element for each row.
constexpr int64_t kMany = 30000, kRoom = 1 << 20, kFew = 16 << 10;

class LinearCrossEntropyMemory : public ::testing::TestWithParam<torch::ScalarType> {
 protected:
  Tensor loss() const {
    return linear_cross_entropy(hidden, weight, targets, {.label_smoothing = 0.1, .chunk_bytes = kRoom});
  }

  // Of LibTorch's products in 16 bits, which may make a chunk in a place of their own.
  static int64_t of_products() { return GetParam() == torch::kBFloat16 ? kRoom / 4 : 0; }

  Tensor hidden = torch::randn({64, 8}).to(GetParam()).requires_grad_();
  Tensor weight = torch::randn({kMany, 8}).to(GetParam()).requires_grad_();
  Tensor targets = torch::randint(kMany, {64}, torch::kInt64);
};
INSTANTIATE_TEST_SUITE_P(Dtypes, LinearCrossEntropyMemory,
                         ::testing::Values(torch::kFloat32, torch::kBFloat16, torch::kFloat64),
                         [](const auto& info) { return toString(info.param); });

// The whole ones would take 4 to 15 times as much.
TEST_P(LinearCrossEntropyMemory, IsBoundedWhateverTheVocabulary) {
  Tensor made;
  const Peak forward = peak_of([&] { made = loss(); });
  EXPECT_LT(forward.highest(), kRoom + kFew + of_products());
  EXPECT_GT(forward.held(), kRoom / 2);
  const Peak backward = peak_of([&] { made.backward(); });
  EXPECT_LT(forward.held() + backward.highest(), kRoom + kFew + of_products() + static_cast<int64_t>(weight.nbytes()));
  EXPECT_TRUE(hidden.grad().defined() && weight.grad().defined());
}

// Until each is used up. Bytes that are told beforehand are those that are held.
TEST_P(LinearCrossEntropyMemory, OfLogitsIsToldBeforehandAndCounted) {
  torch::nn::Module none;
  const int64_t told = kept_logit_bytes(64, kMany, GetParam(), {.chunk_bytes = kRoom});
  EXPECT_GT(told, kRoom / 2);
  const auto moments = preview_activations(none, [&] { return loss(); });
  const int64_t others = static_cast<int64_t>(hidden.nbytes() + weight.nbytes() + targets.nbytes()) + kFew;
  const int64_t counted = std::accumulate(moments.back().begin(), moments.back().end(), int64_t{0});
  EXPECT_GT(counted, told);
  EXPECT_LT(counted, told + others);
  Tensor made;
  const Peak forward = peak_of([&] { made = loss(); });
  EXPECT_GE(forward.held(), told);
  EXPECT_LT(forward.held(), told + kFew);
}

TEST(LinearCrossEntropy, TellsTheLogitsThatItKeeps) {
  EXPECT_EQ(kept_logit_bytes(10, 1000, torch::kFloat32), 40000);
  EXPECT_EQ(kept_logit_bytes(10, 1000, torch::kBFloat16), 20000);
  EXPECT_EQ(kept_logit_bytes(0, 1000, torch::kFloat32), 0);
  // Chunks of 64 columns, four of which fit: three are kept, and one is made again.
  EXPECT_EQ(kept_logit_bytes(1024, 50257, torch::kFloat32, {.chunk_bytes = 1 << 20}), 1024 * 3 * 64 * 4);
  EXPECT_THAT(message_of<Error>([] { kept_logit_bytes(1, 0, torch::kFloat32); }), HasSubstr("kept_logit_bytes: found"));
}

// 8 sequences of 1,024 tokens with GPT-2's vocabulary: all are kept, in chunks of some thousand columns.
TEST(LinearCrossEntropy, HasALargerRoomOnAGpu) {
  constexpr int64_t kTargets = 8 * 1024, kVocabulary = 50304;
  EXPECT_EQ(kept_logit_bytes(kTargets, kVocabulary, torch::kBFloat16, {}, torch::kCUDA), kTargets * kVocabulary * 2);
  EXPECT_LT(kept_logit_bytes(kTargets, kVocabulary, torch::kBFloat16), int64_t{64} << 20);
  // A sixth of 6 MB for a chunk of 170 columns, of which 128 are even; of 2 bytes each, and 4 bytes beside one chunk.
  EXPECT_EQ(kept_logit_bytes(1024, kVocabulary, torch::kBFloat16, {.gpu_chunk_bytes = 1024 * 1024 * 4}, torch::kCUDA),
            1024 * 128 * 2 * 13);
}

// Logits that were kept are used up, also where the graph stays.
TEST_P(LinearCrossEntropyMemory, OfLogitsIsGoneAfterTheBackward) {
  Tensor made;
  const Peak peak = peak_of([&] {
    made = loss();
    made.backward({}, /*retain_graph=*/true);
  });
  EXPECT_LT(peak.held(), kFew + static_cast<int64_t>(weight.nbytes()));
}

TEST_P(LinearCrossEntropyMemory, IsThatOfOneChunkWhereNothingRequiresAGradient) {
  const torch::NoGradGuard no_grad;
  EXPECT_LT(peak_of([&] { loss(); }).highest(), kRoom / 4 + kFew + of_products());
}

}  // namespace
}  // namespace fsdp
