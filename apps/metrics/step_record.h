// What is known of one step when it is done.
#pragma once

#include <cstdint>
#include <optional>

namespace trainer {

struct StepRecord {
  int64_t step = 0;  // steps done, this one included
  double loss = 0;   // the mean over all micro-batches of all ranks, in nats a byte
  double grad_norm = 0;
  double lr = 0;
  double tokens_per_second = 0;  // of the whole job
  int64_t memory_bytes = 0;      // resident in rank 0
  double seconds = 0;            // since the first step of this process began
  double seconds_left = 0;
  std::optional<double> validation_loss = std::nullopt;
  std::optional<double> loss_scale = std::nullopt;  // that the loss was multiplied by, where it was
  bool skipped = false;                             // its gradients were not finite: no parameter has changed
};

}  // namespace trainer
