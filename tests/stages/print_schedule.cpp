// print_schedule NAME RANKS STAGES_PER_RANK MICRO_BATCHES: when each pass of a schedule runs, a line per pass: rank,
// action, start, end. A forward takes 1, and so do an input gradient and a weight gradient. The last line has the idle
// share. For tools/draw_schedules.py.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "stages/schedules.h"
#include "stages/timing.h"

int main(int count, char** arguments) {
  using namespace fsdp::stages;
  if (count != 5) return std::fputs("print_schedule NAME RANKS STAGES_PER_RANK MICRO_BATCHES\n", stderr), 2;
  try {
    const StageSchedule schedule =
        named_schedule(arguments[1])
            .generate(std::atoi(arguments[2]), std::atoi(arguments[3]), std::atoi(arguments[4]));
    const StageTiming timing = timing_of(
        schedule,
        std::vector<StageTimes>(schedule.stages(), {.forward = 1, .input_gradient = 1, .weight_gradient = 1}));
    for (int rank = 0; rank < schedule.rank_count(); ++rank) {
      for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
        const StageAction& action = schedule.ranks[rank][i];
        if (action.kind == StageAction::Kind::Idle) continue;
        const auto& interval = timing.intervals[rank][i];
        std::printf("%d %s %g %g\n", rank, to_string(action).c_str(), interval.start, interval.end);
      }
    }
    std::printf("idle %g\n", timing.idle_share);
    return 0;
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
}
