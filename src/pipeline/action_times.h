// The times of this rank's actions: always how long it ran passes, and while it is traced each action, each wait for
// another stage and the idle time, as spans.
//
// Idle is the time of a call in which the rank runs no pass, as in PipelineReport::idle_share. For one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/trace_events.h"
#include "stages/stage_action.h"

namespace fsdp::pipeline {

class ActionTimes {
 public:
  // A call of step or forward begins, or its last action is over.
  void begin_call();
  void end_call();
  // The last call's.
  const std::vector<double>& pass_seconds() const { return pass_seconds_; }  // in the order of the schedule
  double seconds() const { return seconds_of(end_ - begin_); }

  // Measures a scope: an action, or the wait for the message that this action receives.
  class Scope {
   public:
    enum class Kind { Action, Wait };
    Scope(ActionTimes& times, const stages::StageAction& action, Kind kind = Kind::Action);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ActionTimes& times_;
    const stages::StageAction action_;
    const Kind kind_;
    const int64_t begin_;
  };

  // Throws Error while it is traced already.
  void begin_trace();
  // All that has ended meanwhile, in the order of the ends.
  std::vector<report::NamedSpan> end_trace();

 private:
  static double seconds_of(int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }
  void add(const stages::StageAction& action, Scope::Kind kind, int64_t begin, int64_t end);
  void add_idle_until(int64_t time);

  int64_t begin_ = 0, end_ = 0;  // of the call, in nanoseconds
  std::vector<double> pass_seconds_;
  int64_t last_pass_ = 0;  // its end, or the call's begin
  std::optional<std::vector<report::NamedSpan>> spans_;
};

}  // namespace fsdp::pipeline
