#include "optim/block8_rule.h"

#include <algorithm>
#include <cmath>

#include "optim/block8.h"
#include "optim/block8_adam.h"
#include "parallel/for_parts.h"

namespace fsdp::optim {

namespace {

constexpr int64_t kBlocksPerThread = 64;  // at least

AdamNumbers adam_numbers(const Settings& with, double step, WeightDecay decay, bool maximize) {
  const bool decoupled = decay == WeightDecay::Decoupled;
  const double bias1 = 1 - std::pow(*with.beta1, step), bias2 = 1 - std::pow(*with.beta2, step);
  const auto in_fp32 = [](double number) { return static_cast<float>(number); };
  return {.sign = maximize ? -1.F : 1.F,
          .added_decay = decoupled ? 0.F : in_fp32(*with.weight_decay),
          .kept = decoupled ? in_fp32(1 - *with.lr * *with.weight_decay) : 1.F,
          .beta1 = in_fp32(*with.beta1),
          .rest1 = in_fp32(1 - *with.beta1),
          .beta2 = in_fp32(*with.beta2),
          .rest2 = in_fp32(1 - *with.beta2),
          .eps = in_fp32(*with.eps * std::sqrt(bias2)),
          .step_size = in_fp32(*with.lr / bias1 * std::sqrt(bias2))};
}

}  // namespace

void update_block8(const UpdateBatch& batch, const Settings& with, WeightDecay decay, bool maximize) {
  for (size_t i = 0; i < batch.pieces.size(); ++i) {
    const AdamNumbers numbers = adam_numbers(with, batch.steps[i].item<double>(), decay, maximize);
    auto* parameters = batch.pieces[i].data_ptr<float>();
    const auto* gradients = batch.gradients[i].const_data_ptr<float>();
    auto* first = batch.states[0][i].data_ptr<int8_t>();
    auto* first_scales = batch.states[1][i].data_ptr<float>();
    auto* second = batch.states[2][i].data_ptr<uint8_t>();
    auto* second_scales = batch.states[3][i].data_ptr<float>();
    const int64_t numel = batch.pieces[i].numel(), blocks = (numel + kBlock8Numel - 1) / kBlock8Numel;
    parallel::for_parts(blocks, kBlocksPerThread, [&](int64_t block, int64_t end) {
      const int64_t at = block * kBlock8Numel;
      block8_adam(numbers, parameters + at, gradients + at, std::min(end * kBlock8Numel, numel) - at,
                  {first + at, first_scales + block, second + at, second_scales + block});
    });
  }
}

}  // namespace fsdp::optim
