#include "memory/freed_memory.h"

#include <fsdp/freed_memory.h>
#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "support/message_of.h"
#include "support/resident_bytes.h"
#include "support/run_ranks.h"

namespace fsdp::memory {
namespace {

int64_t resident_bytes() { return testing::process_bytes("VmRSS"); }

// Of `function`, of 4 KiB each: the process has no huge pages from then on. Reads from a disk do not count.
template <typename Function>
int64_t page_faults_of(Function function) {
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  const auto faults = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<int64_t>(usage.ru_minflt);
  };
  const int64_t before = faults();
  function();
  return faults() - before;
}

// Tensors with sizes of activations, all in use at once.
int64_t faults_of_tensors() {
  return page_faults_of([] {
    std::vector<torch::Tensor> tensors;
    for (int64_t i = 0; i < 64; ++i) tensors.push_back(torch::ones({(1 + i % 4) << 18}));
  });
}

constexpr int64_t kPagesOfTensors = 16 * (1 + 2 + 3 + 4) * 256;

// In a process of its own: its heap is another one from then on.
void expect_kept(bool returned_before) {
  testing::run_rank_processes(1, [returned_before](World&) {
    if (returned_before) return_freed_memory();
    keep_freed_memory();
    EXPECT_GE(faults_of_tensors(), kPagesOfTensors);
    for (int i = 0; i < 3; ++i) {
      if (returned_before) EXPECT_GE(faults_of_tensors(), kPagesOfTensors / 2);
      if (!returned_before) EXPECT_LE(faults_of_tensors(), kPagesOfTensors / 10);
    }
  });
}

TEST(FreedMemory, IsKeptForTheNextTensors) { expect_kept(/*returned_before=*/false); }

TEST(FreedMemory, IsNotKeptAfterAProgramChoseToReturnIt) { expect_kept(/*returned_before=*/true); }

TEST(FreedMemory, OfTensorsGoesBackToTheSystemButForAQuarter) {
  return_freed_memory();
  constexpr int64_t kCount = 32, kBytes = 8 << 20;
  const int64_t before = resident_bytes();
  std::vector<torch::Tensor> tensors;
  for (int64_t i = 0; i < kCount; ++i) tensors.push_back(torch::ones({kBytes / 4}));
  EXPECT_GE(resident_bytes() - before, kCount * kBytes);
  tensors.clear();
  EXPECT_LE(resident_bytes() - before, kCount * kBytes / 2);
}

TEST(FreedMemory, ChangesNothingElseOfTensors) {
  const torch::Tensor before = torch::arange(1 << 20);
  return_freed_memory();
  return_freed_memory();
  torch::Tensor tensor = before.clone();
  tensor.resize_({3 << 20}).slice(0, 1 << 20).fill_(7);
  EXPECT_TRUE(torch::equal(tensor.slice(0, 0, 1 << 20), before));
  EXPECT_EQ(tensor.sum().item<int64_t>(), before.sum().item<int64_t>() + (int64_t{14} << 20));
  EXPECT_TRUE(torch::zeros({1 << 20}).eq(0).all().item<bool>());  // where the freed ones were
  for (const int64_t size : {1 << 10, 1 << 20}) {                 // products in bf16 have scratch memory
    const torch::Tensor ones = torch::ones({2, size}, torch::kBFloat16);
    EXPECT_EQ(ones.mm(ones.t()).sum().item<float>(), static_cast<float>(4 * size));
  }
  EXPECT_THAT(testing::message_of<c10::Error>([] { torch::empty({int64_t{1} << 58}); }),
              ::testing::HasSubstr("can't allocate memory"));
}

}  // namespace
}  // namespace fsdp::memory
