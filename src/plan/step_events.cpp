#include "plan/step_events.h"

#include <map>

namespace fsdp::plan {

namespace {

using EventKind = StepEvent::Kind;

void add_operator(const PassOperator& one, Mode mode, StepEvents& events) {
  if (one.units.empty() && one.seconds == 0) return;  // gradients alone
  events.push_back({.kind = EventKind::OperatorBegins,
                    .units = one.units,
                    .mode = mode,
                    .runs_again = one.runs_again,
                    .seconds = one.seconds,
                    .launches = one.launches});
  if (!one.units.empty()) events.push_back({.kind = EventKind::OperatorEnds, .units = one.units});
}

void add_micro_batch(const TrainingStep& step, bool is_local, StepEvents& events) {
  if (is_local) events.push_back({.kind = EventKind::NoSyncBegins});
  add_forward(step.forward, events);
  add_backward(step.backward, events);
  if (is_local) events.push_back({.kind = EventKind::NoSyncEnds});
}

}  // namespace

void add_forward(const Pass& forward, StepEvents& events) {
  for (const PassOperator& one : forward) add_operator(one, Mode::Forward, events);
}

void add_backward(const Pass& backward, StepEvents& events) {
  if (backward.empty()) return;
  std::map<UnitId, int64_t> wanted;
  for (const PassOperator& one : backward) {
    for (const auto& [unit, count] : one.gradients) wanted[unit] += count;
  }
  for (const PassOperator& one : backward) {
    add_operator(one, Mode::Backward, events);
    for (const auto& [unit, count] : one.gradients) {
      for (int i = 0; i < count; ++i)
        events.push_back({.kind = EventKind::Gradient, .units = {unit}, .number = wanted[unit]});
    }
  }
  events.push_back({.kind = EventKind::BackwardEnds});
}

StepEvents events_of(const TrainingStep& step) {
  StepEvents events;
  for (int i = 1; i < step.micro_batches; ++i) add_micro_batch(step, step.accumulates_locally, events);
  if (step.steps_in_backward) events.push_back({.kind = EventKind::EarlyStepBegins});
  add_micro_batch(step, /*is_local=*/false, events);
  if (step.steps_in_backward) events.push_back({.kind = EventKind::EarlyStepEnds});
  if (step.clips) events.push_back({.kind = EventKind::SumEnds, .seconds = step.clip_seconds});
  events.push_back({.kind = EventKind::Step});
  return events;
}

}  // namespace fsdp::plan
