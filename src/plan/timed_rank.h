// A simulated rank: plays a program's events to a step driver, whose verbs take time.
//
// Owned by one simulation. It runs in its turn (rank_turns.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plan/timed_performer.h"
#include "schedule/step_driver.h"

namespace fsdp::plan {

// Between ranks of a pipeline.
struct Mail {
  std::map<int64_t, std::vector<double>> messages;  // when they are there, by their numbers
  std::vector<double> meetings;                     // when each rank came to each
};

// The gradients' sum: only whether there is any.
class TimedSums final : public schedule::GradientSums {
 public:
  explicit TimedSums(TimedPerformer& performer) : performer_(performer) {}
  bool any() const override { return performer_.has_gradients(); }
  bool are_reset() const override { return !performer_.has_gradients(); }
  void begin() override {}
  void end() override {}
  void drop() override { performer_.drop_gradients(); }
  void give_back() override {}
  void settle() override {}
  void forget_late() override {}

 private:
  TimedPerformer& performer_;
};

class TimedPeers final : public schedule::Peers {
 public:
  // All outlive it.
  TimedPeers(const schedule::Facts& facts, const StepDurations& durations, RankExchange& exchange, StepClock& clock,
             ActionList& actions, const TimedPerformer& performer)
      : facts_(facts),
        durations_(durations),
        exchange_(exchange),
        clock_(clock),
        actions_(actions),
        performer_(performer) {}
  std::vector<std::vector<int64_t>> all_gather(std::span<const int64_t> words, const std::string& purpose) override;
  void ranks_differ(bool) override {}
  bool reductions_as_before() override { return true; }
  void forward_begins(bool) override {}
  void backward_ended(bool) override {}
  void backward_measured() override {}

 private:
  const schedule::Facts& facts_;
  const StepDurations& durations_;
  RankExchange& exchange_;
  StepClock& clock_;
  ActionList& actions_;
  const TimedPerformer& performer_;
};

class TimedRank {
 public:
  // `turn` is its number among all simulated ranks. All outlive it.
  TimedRank(const RankToSimulate& rank, const schedule::Facts& facts, RankTurns& turns, int turn, ExchangeLog& log,
            Mail& mail);
  TimedRank(const TimedRank&) = delete;  // its members know each other
  TimedRank& operator=(const TimedRank&) = delete;

  // Plays all events.
  void run();
  std::vector<SimulatedStep> take_steps() { return std::move(steps_); }

 private:
  using Kind = SimulatedAction::Kind;

  void play(const StepEvent& event);
  void begin_operator(const StepEvent& event);
  void take_gradient(const StepEvent& event);
  void end_backward();
  void receive(int64_t message);
  void meet(const StepEvent& event);
  void add_step();

  const RankToSimulate& rank_;
  RankTurns& turns_;
  const int turn_;
  Mail& mail_;
  RankExchange exchange_;
  StepClock clock_;
  ActionList actions_;
  TimedPerformer performer_;
  TimedSums sums_;
  TimedPeers peers_;
  std::map<int64_t, size_t> received_;         // messages, by their number
  size_t met_ = 0;                             // ranks at all meetings so far
  std::vector<std::optional<int64_t>> outer_;  // micro-batches around the present one
  UnitId current_ = -1;                        // the unit of the last operator
  std::vector<SimulatedStep> steps_;
  std::atomic<bool> changed_ = false, local_sums_ = false;
  schedule::StepDriver driver_;
};

}  // namespace fsdp::plan
