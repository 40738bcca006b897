#include "stages/timing.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "stages/pass_inputs.h"
#include "stages/validate.h"

namespace fsdp::stages {
namespace {

using Kind = StageAction::Kind;

double duration_of(Kind pass, const StageTimes& times) {
  switch (pass) {
    case Kind::Forward:
      return times.forward;
    case Kind::Backward:
      return times.input_gradient + times.weight_gradient;
    case Kind::InputGradient:
      return times.input_gradient;
    default:
      return times.weight_gradient;
  }
}

// The pass whose result the message carries, as far as PassInputs distinguishes them.
StageAction carried_by(StageAction send) {
  send.kind = send.kind == Kind::SendForward ? Kind::Forward : Kind::Backward;
  return send;
}

// The number of each rank's first pass among those of all ranks.
std::vector<size_t> first_passes(const StageSchedule& schedule) {
  std::vector<size_t> first(schedule.ranks.size(), 0);
  for (size_t rank = 1; rank < first.size(); ++rank)
    first[rank] = first[rank - 1] + count_passes(schedule.ranks[rank - 1]);
  return first;
}

void check_time(double time) {
  FSDP_CHECK(std::isfinite(time) && time >= 0, "timing_of: found the time {}, expected a finite one of at least 0",
             time);
}

class TimedRun {
 public:
  // `pass_times` as timing_of_passes has them.
  TimedRun(const StageSchedule& schedule, const std::vector<double>& pass_times, double message_time)
      : schedule_(schedule),
        pass_times_(pass_times),
        message_time_(message_time),
        has_messages_(has_messages(schedule)),
        inputs_(schedule.stages(), schedule.micro_batches),
        next_pass_(first_passes(schedule)),
        clocks_(schedule.ranks.size(), 0),
        busy_(schedule.ranks.size(), 0),
        held_of_rank_(schedule.ranks.size(), 0),
        held_of_stage_(schedule.rank_of_stage.size(), 0) {
    timing_.intervals.resize(schedule.ranks.size());
    timing_.peak_of_rank.resize(schedule.ranks.size(), 0);
    timing_.peak_of_stage.resize(schedule.rank_of_stage.size(), 0);
  }

  StageTiming run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < clocks_.size(); ++rank) {
        while (advance(rank)) moved = true;
      }
    }
    timing_.makespan = std::ranges::max(clocks_);
    for (double busy : busy_) {
      timing_.idle_shares.push_back(timing_.makespan > 0 ? 1 - busy / timing_.makespan : 0);
      timing_.idle_share += timing_.idle_shares.back() / static_cast<double>(busy_.size());
    }
    return std::move(timing_);
  }

 private:
  bool advance(size_t rank) {
    auto& intervals = timing_.intervals[rank];
    if (intervals.size() == schedule_.ranks[rank].size()) return false;
    const StageAction& action = schedule_.ranks[rank][intervals.size()];
    const double now = clocks_[rank];
    if (is_send(action.kind)) {
      inputs_.deliver(carried_by(action), now + message_time_);
      intervals.push_back({now, now + message_time_});
    } else if (is_receive(action.kind)) {
      const StageAction use{.kind = action.kind == Kind::ReceiveForward ? Kind::Forward : Kind::Backward,
                            .stage = action.stage,
                            .micro_batch = action.micro_batch};
      if (!inputs_.has(use)) return false;
      intervals.push_back({inputs_.arrival(use) - message_time_, inputs_.arrival(use)});
    } else if (is_pass(action.kind)) {
      if (!inputs_.has(action)) return false;
      intervals.push_back(run_pass(rank, action));
    } else {
      intervals.push_back({now, now});
    }
    return true;
  }

  StageTiming::Interval run_pass(size_t rank, const StageAction& pass) {
    const double start = std::max(clocks_[rank], inputs_.arrival(pass));
    const double duration = pass_times_[next_pass_[rank]++];
    clocks_[rank] = start + duration;
    busy_[rank] += duration;
    count_held(rank, pass);
    if (!is_for_another_rank(pass)) {
      inputs_.deliver(pass, clocks_[rank]);
    } else if (!has_messages_) {
      inputs_.deliver(pass, clocks_[rank] + message_time_);
    }
    return {start, clocks_[rank]};
  }

  bool is_for_another_rank(const StageAction& pass) const {
    const int next = pass.kind == Kind::Forward ? pass.stage + 1 : pass.stage - 1;
    if (next < 0 || next >= schedule_.stages()) return false;
    return schedule_.rank_of(next) != schedule_.rank_of(pass.stage);
  }

  void count_held(size_t rank, const StageAction& pass) {
    const auto count = [&](int& held, int& peak) {
      held += pass.kind == Kind::Forward;
      peak = std::max(peak, held);
      held -= adds_gradients(pass.kind);
    };
    const auto stage = static_cast<size_t>(pass.stage);
    count(held_of_stage_[stage], timing_.peak_of_stage[stage]);
    count(held_of_rank_[rank], timing_.peak_of_rank[rank]);
  }

  const StageSchedule& schedule_;
  const std::vector<double>& pass_times_;
  double message_time_;
  bool has_messages_;
  PassInputs inputs_;
  std::vector<size_t> next_pass_;                  // by rank, in pass_times_
  std::vector<double> clocks_, busy_;              // by rank
  std::vector<int> held_of_rank_, held_of_stage_;  // micro-batches whose activations are held
  StageTiming timing_;
};

}  // namespace

StageTimes& StageTimes::operator+=(const StageTimes& other) {
  forward += other.forward;
  input_gradient += other.input_gradient;
  weight_gradient += other.weight_gradient;
  return *this;
}

size_t count_passes(const std::vector<StageAction>& actions) {
  return static_cast<size_t>(std::ranges::count_if(actions, [](const auto& action) { return is_pass(action.kind); }));
}

StageTimes sum_of_passes(const std::vector<StageAction>& actions, const std::vector<double>& pass_times) {
  const size_t passes = count_passes(actions);
  FSDP_CHECK(pass_times.size() == passes, "sum_of_passes: found times of {} passes, expected {}", pass_times.size(),
             passes);
  StageTimes sum;
  auto time = pass_times.begin();
  for (const StageAction& action : actions) {
    if (!is_pass(action.kind)) continue;
    double& of_kind = action.kind == Kind::Forward          ? sum.forward
                      : action.kind == Kind::WeightGradient ? sum.weight_gradient
                                                            : sum.input_gradient;
    of_kind += *time++;
  }
  return sum;
}

StageTiming timing_of(const StageSchedule& schedule, const std::vector<StageTimes>& times, double message_time) {
  validate(schedule);
  FSDP_CHECK(times.size() == schedule.rank_of_stage.size(), "timing_of: found times of {} stages, expected {}",
             times.size(), schedule.stages());
  for (const auto& [forward, input_gradient, weight_gradient] : times) {
    for (const double time : {forward, input_gradient, weight_gradient, message_time}) check_time(time);
  }
  std::vector<double> pass_times;
  for (const auto& actions : schedule.ranks) {
    for (const StageAction& action : actions) {
      if (is_pass(action.kind)) pass_times.push_back(duration_of(action.kind, times[action.stage]));
    }
  }
  return TimedRun(schedule, pass_times, message_time).run();
}

StageTiming timing_of_passes(const StageSchedule& schedule, const std::vector<double>& pass_times,
                             double message_time) {
  validate(schedule);
  const size_t passes = first_passes(schedule).back() + count_passes(schedule.ranks.back());
  FSDP_CHECK(pass_times.size() == passes, "timing_of: found times of {} passes, expected {}", pass_times.size(),
             passes);
  for (const double time : pass_times) check_time(time);
  check_time(message_time);
  return TimedRun(schedule, pass_times, message_time).run();
}

}  // namespace fsdp::stages
