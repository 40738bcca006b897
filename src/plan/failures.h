// Time lost to failures and to the slowest rank. Pure.
#pragma once

#include <cstdint>

namespace fsdp::plan {

// A job whose ranks fail at random, all times in seconds.
struct FailureTimes {
  double between_failures = 0;  // of the job, the mean: that of one rank divided by the number of ranks
  double save = 0;              // for which a checkpoint stops the training
  double restart = 0;           // from a failure until the training goes on from the newest checkpoint
};

// Seconds of training between checkpoints that lose least.
//
// The first order: sqrt(2 save between_failures) (Young, 1974, "A first order approximation to the optimum checkpoint
// interval").
double young_interval(const FailureTimes& times);
// A higher order (Daly, 2006, "A higher order estimate of the optimum checkpoint interval for restart dumps", equation
// 37).
double daly_interval(const FailureTimes& times);

// The share of the time that is training which no failure undoes, with checkpoints after each `interval` seconds of
// training (Daly, 2006, equation 20). From 0 to 1.
double useful_share(const FailureTimes& times, double interval);

// The largest of `count` normal variables of mean 0 and deviation 1, on average: the slowest of ranks whose times vary.
// 0 for one.
double expected_largest(int64_t count);

}  // namespace fsdp::plan
