#include "pipeline/action_times.h"

#include <utility>

#include "base/error.h"

namespace fsdp::pipeline {

namespace {

using stages::StageAction;
using Kind = StageAction::Kind;

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::Forward:
      return "forward";
    case Kind::Backward:
      return "backward";
    case Kind::InputGradient:
      return "input gradient";
    case Kind::WeightGradient:
      return "weight gradient";
    case Kind::SendForward:
    case Kind::SendBackward:
      return "send";
    case Kind::ReceiveForward:
    case Kind::ReceiveBackward:
      return "receive";
    case Kind::Gather:
      return "gather";
    case Kind::Release:
      return "release";
    default:
      return "";
  }
}

report::SpanFacts facts_of(const StageAction& action) {
  report::SpanFacts facts{{"stage", action.stage}, {"pass", name_of(action.kind)}};
  if (action.micro_batch >= 0) facts.emplace_back("micro_batch", action.micro_batch);
  return facts;
}

}  // namespace

void ActionTimes::begin_call() {
  begin_ = end_ = last_pass_ = report::now();
  pass_seconds_.clear();
}

void ActionTimes::end_call() {
  end_ = report::now();
  add_idle_until(end_);
}

ActionTimes::Scope::Scope(ActionTimes& times, const StageAction& action, Kind kind)
    : times_(times), action_(action), kind_(kind), begin_(report::now()) {}

ActionTimes::Scope::~Scope() { times_.add(action_, kind_, begin_, report::now()); }

void ActionTimes::add(const StageAction& action, Scope::Kind kind, int64_t begin, int64_t end) {
  if (kind == Scope::Kind::Action && is_pass(action.kind)) {
    pass_seconds_.push_back(seconds_of(end - begin));
    add_idle_until(begin);
    last_pass_ = end;
  }
  if (!spans_) return;
  spans_->push_back({.row = kind == Scope::Kind::Wait ? report::kPipelineWaits : report::kPipeline,
                     .name = to_string(action),
                     .begin = begin,
                     .end = end,
                     .facts = facts_of(action)});
}

void ActionTimes::add_idle_until(int64_t time) {
  if (spans_ && time > last_pass_)
    spans_->push_back({.row = report::kPipelineIdle, .name = "idle", .begin = last_pass_, .end = time});
}

void ActionTimes::begin_trace() {
  FSDP_CHECK(!spans_, "trace: the pipeline is traced already. Write or destroy that trace first.");
  spans_.emplace();
}

std::vector<report::NamedSpan> ActionTimes::end_trace() {
  std::vector<report::NamedSpan> spans = std::move(*spans_);
  spans_.reset();
  return spans;
}

}  // namespace fsdp::pipeline
