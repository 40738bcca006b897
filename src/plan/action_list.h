// The actions of a simulated rank, step by step.
#pragma once

#include <utility>
#include <vector>

#include "plan/simulation.h"
#include "plan/step_clock.h"

namespace fsdp::plan {

class ActionList {
 public:
  using Kind = SimulatedAction::Kind;
  using Stream = SimulatedAction::Stream;
  // The place of an action, also of an earlier step.
  struct Place {
    size_t step = 0, number = 0;
  };

  Place add(Kind kind, UnitId unit, Interval interval, Stream stream = Stream::Compute, int buffer = -1) {
    actions_.push_back({kind, unit, buffer, interval.begin, interval.end, stream});
    return {step_, actions_.size() - 1};
  }
  // Computation on a unit. In a row it is one action.
  void add_computation(Kind kind, UnitId unit, Interval interval) {
    const bool goes_on = !actions_.empty() && actions_.back().kind == kind && actions_.back().unit == unit;
    if (!goes_on) add(kind, unit, interval);
    actions_.back().end = interval.end;
  }
  // Its peers were late. An action of an earlier step stays as it is.
  void move(Place place, Interval interval) {
    if (place.step != step_) return;
    actions_[place.number].begin = interval.begin;
    actions_[place.number].end = interval.end;
  }
  bool empty() const { return actions_.empty(); }
  std::vector<SimulatedAction> end_step() {
    ++step_;
    return std::exchange(actions_, {});
  }

 private:
  size_t step_ = 0;
  std::vector<SimulatedAction> actions_;
};

}  // namespace fsdp::plan
