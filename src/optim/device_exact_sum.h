// An ExactSum (exact_sum.h) on a device, by operators on whole tensors. Whole numbers have no order, so the bits are
// the host's. Nothing here waits for the device.
#pragma once

#include <torch/types.h>

#include "optim/exact_sum.h"

namespace fsdp::optim {

class DeviceExactSum {
 public:
  explicit DeviceExactSum(const torch::Device& device);

  // [n] of float64, none of them negative; any may be infinite or NaN.
  void add(const torch::Tensor& terms);
  // [ExactSum::kLimbs] int64, below 2^33 each, so that those of many ranks can be added.
  torch::Tensor limbs() const;
  // [] of float64: infinite or NaN if a term was, otherwise 0.
  const torch::Tensor& special() const { return special_; }

 private:
  // Many rows of limbs. Neighbouring terms go to different rows, since additions to one number wait for each other.
  torch::Tensor table_;
  torch::Tensor special_;
};

// [] of float64: ExactSum::value of limbs that are not negative.
torch::Tensor exact_value(const torch::Tensor& limbs, const torch::Tensor& special);

}  // namespace fsdp::optim
