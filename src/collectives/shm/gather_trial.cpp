#include "collectives/shm/gather_trial.h"

#include <torch/types.h>

#include <chrono>

#include "collectives/shm/peer_copy.h"

namespace fsdp::collectives::shm {

namespace {

// Each trial has a matrix of its own, so that no cache knows it from the trial before.
constexpr int kTrials = 6;
constexpr int64_t kRows = 256, kOutputs = 2048, kInputs = 1024;
constexpr int64_t kMatrixBytes = kOutputs * kInputs * static_cast<int64_t>(sizeof(float));
static_assert(kTrials * kMatrixBytes == kTrialBytes);

template <typename Operation>
double seconds_of(Operation&& operation) {
  const auto begin = std::chrono::steady_clock::now();
  operation();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

GatherSeconds try_gathers(char* memory) {
  torch::NoGradGuard no_grad;
  const torch::Tensor input = torch::ones({kRows, kInputs}), copied = torch::zeros({kOutputs, kInputs});
  torch::linear(input, copied);  // the first product starts threads and takes memory
  GatherSeconds seconds;
  for (int trial = 0; trial < kTrials; ++trial) {
    char* matrix = memory + trial * kMatrixBytes;
    if (trial % 2 == 0) {
      seconds.map += seconds_of([&] { torch::linear(input, torch::from_blob(matrix, {kOutputs, kInputs})); });
    } else {
      seconds.copy += seconds_of([&] {
        copy_from_peer(copied.mutable_data_ptr(), matrix, kMatrixBytes);
        torch::linear(input, copied);
      });
    }
  }
  return seconds;
}

}  // namespace fsdp::collectives::shm
