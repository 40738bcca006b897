// The learning rate over a run: up in a straight line, then down along half a cosine (Loshchilov and Hutter, 2017,
// https://arxiv.org/abs/1608.03983) to a tenth of the peak.
#pragma once

#include <cstdint>

namespace trainer {

struct LearningRate {
  double peak = 1e-3;             // reached at the end of the warm-up
  int64_t warmup = 0;             // steps, at most `steps`
  int64_t steps = 1;              // of the run; the last has a tenth of the peak
  double at(int64_t step) const;  // 0 <= step < steps
};

}  // namespace trainer
