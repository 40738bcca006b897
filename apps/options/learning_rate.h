// The learning rate over a run: up in a straight line (Goyal et al., 2017, https://arxiv.org/abs/1706.02677), then down
// from the peak to a share of it, by one of these schedules.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace trainer {

// The part of the fall that is left, from 1 at its beginning to 0 at its end, and where it begins.
struct Schedule {
  const char* name;
  double (*left)(double done);  // done: the part of the fall that is behind, 0 to 1
  bool falls_at_the_end;        // it lasts `decay_steps`; otherwise from the warm-up to the last step
};

double half_cosine(double done);
double straight_line(double done);
double level(double done);

inline constexpr std::array<Schedule, 4> kSchedules = {{
    // Along half a cosine (Loshchilov and Hutter, 2017, https://arxiv.org/abs/1608.03983).
    {"cosine", half_cosine, false},
    // In a straight line (Li, Yumer and Ramanan, 2020, "Budgeted Training", https://arxiv.org/abs/1905.04753).
    {"linear", straight_line, false},
    // Warm-up, stable, decay (Hu et al., 2024, MiniCPM, https://arxiv.org/abs/2404.06395), with the decay in a straight
    // line (Hägele et al., 2024, https://arxiv.org/abs/2405.18392): a checkpoint from before it can be trained longer.
    {"wsd", straight_line, true},
    // The peak to the end.
    {"constant", level, false},
}};

// Throws fsdp::Error for a name that is none of theirs.
const Schedule& schedule_named(std::string_view name);

struct LearningRate {
  double peak = 1e-3;                      // reached at the end of the warm-up
  int64_t warmup = 0;                      // steps, at most `steps`
  int64_t steps = 1;                       // of the run
  Schedule schedule = kSchedules.front();  // cosine
  double final_share = 0.1;                // of the peak, in the last step, unless the schedule is level
  int64_t decay_steps = 0;                 // the last of the run, for a schedule that falls at the end
  double at(int64_t step) const;           // 0 <= step < steps
};

}  // namespace trainer
