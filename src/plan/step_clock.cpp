#include "plan/step_clock.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "plan/simulation.h"

namespace fsdp::plan {

size_t TransferStream::begin(double ready, double seconds) {
  const double begin = transfers_.empty() ? ready : std::max(ready, transfers_.back().end);
  transfers_.push_back({begin, begin + seconds});
  return transfers_.size() - 1;
}

void TransferStream::delay(size_t number, double ready) {
  for (size_t i = number; i < transfers_.size() && transfers_[i].begin < ready; ++i) {
    transfers_[i] = {ready, ready + transfers_[i].seconds()};
    ready = transfers_[i].end;
  }
}

double StepClock::host() const { return durations_.runs_ahead ? host_ : compute_; }

TransferStream& StepClock::reductions() { return durations_.one_stream ? gathers_ : reductions_; }

Interval StepClock::advance(double until, Cause cause) {
  const Interval interval{compute_, std::max(compute_, until)};
  spent_[static_cast<size_t>(cause)] += interval.end - interval.begin;
  compute_ = interval.end;
  return interval;
}

// The first operator begins once it is launched, and the last ends no sooner than its own launch and time allow.
Interval StepClock::launch(int operators, double seconds) {
  const double launches = durations_.launch * operators;
  if (!durations_.runs_ahead) {
    advance(compute_ + launches, Cause::Idle);
    return work(seconds, Cause::Compute);
  }
  advance(host_ + durations_.launch, Cause::Idle);
  host_ += launches;
  const double begin = work(seconds, Cause::Compute).begin;
  return {begin, advance(host_ + seconds * durations_.straggling / operators, Cause::Idle).end};
}

Interval StepClock::work(double seconds, Cause cause) {
  return advance(slowed_end(compute_, seconds * durations_.straggling), cause);
}

Interval StepClock::wait(double until, Cause cause) { return advance(until, cause); }

Interval StepClock::host_waits(double until, Cause cause) {
  if (!durations_.runs_ahead) return advance(until, cause);
  const double begin = host_;
  host_ = std::max(host_, until);
  return {begin, host_};
}

// Alternates between times with a transfer beside and times without.
double StepClock::slowed_end(double begin, double seconds) {
  if (durations_.slowdown == 0) return begin + seconds;
  double time = begin;
  for (;;) {
    double busy_until = time, free_until = std::numeric_limits<double>::infinity();
    const auto look = [&](const Interval& transfer) {
      if (transfer.begin <= time) busy_until = std::max(busy_until, transfer.end);
      if (transfer.begin > time) free_until = std::min(free_until, transfer.begin);
    };
    gathers_.each_after(time, look);
    reductions_.each_after(time, look);
    const bool is_busy = busy_until > time;
    const double pace = is_busy ? 1 + durations_.slowdown : 1;
    const double until = is_busy ? busy_until : free_until;
    if (time + seconds * pace <= until) return time + seconds * pace;
    seconds -= (until - time) / pace;
    time = until;
  }
}

std::array<double, kCauses> StepClock::take_spent() { return std::exchange(spent_, {}); }

}  // namespace fsdp::plan
