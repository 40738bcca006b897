#include "plan/pipeline_simulation.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "stages/validate.h"

namespace fsdp::plan {

namespace {

using stages::StageAction;
using PassKind = StageAction::Kind;
using EventKind = StepEvent::Kind;
using ActionKind = SimulatedAction::Kind;

// A rank's program of one step.
class StageProgram {
 public:
  explicit StageProgram(const PipelineToSimulate& pipeline) : pipeline_(pipeline) {}

  StepEvents write(int rank) {
    meet();
    for (const StageAction& action : pipeline_.schedule.ranks[rank]) add(action);
    meet();
    events_.push_back({.kind = EventKind::Step});
    return std::move(events_);
  }

 private:
  // All ranks wait for the last.
  void meet() {
    events_.push_back(
        {.kind = EventKind::Meet, .seconds = pipeline_.meeting, .number = pipeline_.schedule.rank_count()});
  }

  void add(const StageAction& action) {
    const StageWork& work = pipeline_.stages[action.stage];
    switch (action.kind) {
      case PassKind::Forward:
        return add_pass(action, work.forward);
      case PassKind::Backward:
        return add_pass(action, work.backward);
      case PassKind::InputGradient:
        return add_pass(action, work.input_gradient);
      case PassKind::WeightGradient:
        return add_pass(action, work.weight_gradient);
      case PassKind::SendForward:
      case PassKind::SendBackward:
        events_.push_back({.kind = EventKind::Send, .seconds = message_of(action), .number = number_of(action)});
        return;
      case PassKind::Gather:
        events_.push_back({.kind = EventKind::Hold, .units = work.units});
        return;
      case PassKind::Release:
        events_.push_back({.kind = EventKind::LetGo, .units = work.units});
        return;
      default:
        return;  // a receive only begins: the pass that needs it waits
    }
  }

  void add_pass(const StageAction& pass, const Pass& operators) {
    if (needs_message(pass)) events_.push_back({.kind = EventKind::Receive, .number = input_of(pass)});
    const auto batch = int64_t{pass.stage} * pipeline_.schedule.micro_batches + pass.micro_batch;
    events_.push_back({.kind = EventKind::MicroBatchBegins, .number = batch});
    if (pass.kind == PassKind::Forward) {
      add_forward(operators, events_);
    } else {
      add_backward(operators, events_);
    }
    events_.push_back({.kind = EventKind::MicroBatchEnds});
  }

  bool needs_message(const StageAction& pass) const {
    const int from = pass.kind == PassKind::Forward ? pass.stage - 1 : pass.stage + 1;
    if (pass.kind == PassKind::WeightGradient || from < 0 || from >= pipeline_.schedule.stages()) return false;
    return pipeline_.schedule.rank_of(from) != pipeline_.schedule.rank_of(pass.stage);
  }

  double message_of(const StageAction& send) const {
    const int first = send.kind == PassKind::SendForward ? send.stage : send.stage - 1;
    return pipeline_.messages.empty() ? pipeline_.message : pipeline_.messages[static_cast<size_t>(first)];
  }

  // Messages have the number of the pass that makes them.
  int64_t number(int stage, bool is_backward, int micro_batch) const {
    return (int64_t{stage} * 2 + static_cast<int>(is_backward)) * pipeline_.schedule.micro_batches + micro_batch;
  }
  int64_t number_of(const StageAction& send) const {
    return number(send.stage, send.kind == PassKind::SendBackward, send.micro_batch);
  }
  int64_t input_of(const StageAction& pass) const {
    const bool is_backward = pass.kind != PassKind::Forward;
    return number(is_backward ? pass.stage + 1 : pass.stage - 1, is_backward, pass.micro_batch);
  }

  const PipelineToSimulate& pipeline_;
  StepEvents events_;
};

void check(const PipelineToSimulate& pipeline) {
  stages::validate(pipeline.schedule);
  FSDP_CHECK(std::ssize(pipeline.stages) == pipeline.schedule.stages(),
             "simulate_pipeline: found the work of {} stages, expected {}", pipeline.stages.size(),
             pipeline.schedule.stages());
  FSDP_CHECK(std::ssize(pipeline.ranks) == pipeline.schedule.rank_count(),
             "simulate_pipeline: found {} ranks, expected {}", pipeline.ranks.size(), pipeline.schedule.rank_count());
  FSDP_CHECK(pipeline.messages.empty() || std::ssize(pipeline.messages) + 1 == pipeline.schedule.stages(),
             "simulate_pipeline: found times of {} messages, expected {}, one between each two stages",
             pipeline.messages.size(), pipeline.schedule.stages() - 1);
  FSDP_CHECK(pipeline.schedule.rank_count() == 1 || stages::has_messages(pipeline.schedule),
             "simulate_pipeline: found a schedule without messages. Add them with stages::add_messages.");
}

// From the end of the first meeting to the last pass.
struct PassTimes {
  double begin = 0, end = 0;
  double waits = 0;  // for messages
};

PassTimes pass_times_of(const SimulatedStep& step) {
  PassTimes times;
  bool has_begun = false;
  for (const SimulatedAction& action : step.actions) {
    if (action.kind == ActionKind::Meet) {
      if (has_begun) break;
      has_begun = true;
      times.begin = times.end = action.end;
    } else if (action.stream == SimulatedAction::Stream::Compute) {
      times.end = std::max(times.end, action.end);
      if (action.kind == ActionKind::WaitMessage) times.waits += action.end - action.begin;
    }
  }
  return times;
}

SimulatedPipelineStep joined(std::vector<SimulatedStep> ranks) {
  SimulatedPipelineStep step;
  std::vector<PassTimes> times;
  for (const SimulatedStep& rank : ranks) {
    times.push_back(pass_times_of(rank));
    step.step = std::max(step.step, rank.totals.step);
  }
  const double begin = std::ranges::min(times, {}, &PassTimes::begin).begin;
  step.makespan = std::ranges::max(times, {}, &PassTimes::end).end - begin;
  for (const PassTimes& rank : times) {
    const double idle = step.makespan - (rank.end - rank.begin) + rank.waits;
    step.idle_shares.push_back(step.makespan > 0 ? idle / step.makespan : 0);
    step.idle_share += step.idle_shares.back() / static_cast<double>(times.size());
  }
  step.ranks = std::move(ranks);
  return step;
}

}  // namespace

StepEvents events_of(const PipelineToSimulate& pipeline, int rank) { return StageProgram(pipeline).write(rank); }

std::vector<SimulatedPipelineStep> simulate_pipeline(const PipelineToSimulate& pipeline, int steps) {
  check(pipeline);
  std::vector<RankToSimulate> ranks;
  for (int rank = 0; rank < pipeline.schedule.rank_count(); ++rank) {
    const auto& [facts, limits, durations] = pipeline.ranks[rank];
    const StepEvents step = events_of(pipeline, rank);
    ranks.push_back({.facts = facts, .limits = limits, .durations = durations, .model = rank});
    for (int i = 0; i < steps; ++i) ranks.back().events.insert(ranks.back().events.end(), step.begin(), step.end());
  }
  std::vector<std::vector<SimulatedStep>> of_ranks = simulate(ranks);
  std::vector<SimulatedPipelineStep> all;
  for (int i = 0; i < steps; ++i) {
    std::vector<SimulatedStep> of_step;
    for (auto& of_rank : of_ranks) of_step.push_back(std::move(of_rank.at(i)));
    all.push_back(joined(std::move(of_step)));
  }
  return all;
}

}  // namespace fsdp::plan
