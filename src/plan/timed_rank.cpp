#include "plan/timed_rank.h"

#include <algorithm>

namespace fsdp::plan {

using EventKind = StepEvent::Kind;

std::vector<std::vector<int64_t>> TimedPeers::all_gather(std::span<const int64_t> words, const std::string&) {
  std::vector<std::vector<int64_t>> all;
  double last = 0;
  for (ExchangeLog::Message& message : exchange_.say({{words.begin(), words.end()}, clock_.host()}, facts_.ranks)) {
    all.push_back(std::move(message.words));
    last = std::max(last, message.time);
  }
  const Cause cause = performer_.in_end() ? Cause::EndOfBackward : Cause::Idle;
  actions_.add(SimulatedAction::Kind::WaitAgreement, -1, clock_.host_waits(last + durations_.message, cause));
  return all;
}

TimedRank::TimedRank(const RankToSimulate& rank, const schedule::Facts& facts, RankTurns& turns, int turn,
                     ExchangeLog& log, Mail& mail)
    : rank_(rank),
      turns_(turns),
      turn_(turn),
      mail_(mail),
      exchange_(facts, turns, turn, log),
      clock_(rank.durations),
      performer_(facts, rank.durations, exchange_, clock_, actions_),
      sums_(performer_),
      peers_(facts, rank.durations, exchange_, clock_, actions_, performer_),
      driver_(facts, rank.limits, performer_, sums_, peers_, {.changed = changed_, .local_sums = local_sums_}) {
  if (!rank.order.empty()) driver_.give_order(rank.order);
}

void TimedRank::run() {
  for (const StepEvent& event : rank_.events) play(event);
  if (!actions_.empty()) add_step();
}

void TimedRank::play(const StepEvent& event) {
  switch (event.kind) {
    case EventKind::OperatorBegins:
      return begin_operator(event);
    case EventKind::OperatorEnds:
      return driver_.operator_ends(event.units);
    case EventKind::GradientPlace:
      driver_.note_backward(/*inside=*/true, /*abandoned=*/false);
      driver_.opens_gradient_in_place(event.units[0]);
      return;
    case EventKind::Gradient:
      return take_gradient(event);
    case EventKind::BackwardEnds:
      return end_backward();
    case EventKind::NoSyncBegins:
      return driver_.begin_local();
    case EventKind::NoSyncEnds:
      return driver_.end_local();
    case EventKind::MicroBatchBegins:
      outer_.push_back(driver_.begin_micro_batch(event.number));
      return;
    case EventKind::MicroBatchEnds:
      driver_.end_micro_batch(outer_.back());
      return outer_.pop_back();
    case EventKind::Hold:
      return driver_.hold(event.units);
    case EventKind::LetGo:
      return driver_.let_go(event.units);
    case EventKind::EarlyStepBegins:
      return driver_.open_early_step(this);
    case EventKind::EarlyStepEnds:
      return driver_.close_early_step();
    case EventKind::SumEnds:
      driver_.close_sum("clip_grad_norm_");
      actions_.add(Kind::Other, -1, clock_.work(event.seconds, Cause::Optimizer));
      return;
    case EventKind::Step:
      driver_.step(this);
      driver_.zero_grad();
      return add_step();
    case EventKind::Send:
      return mail_.messages[event.number].push_back(clock_.now() + event.seconds);
    case EventKind::Receive:
      return receive(event.number);
    case EventKind::Meet:
      return meet(event);
  }
}

// An operator without units computes on the last unit.
void TimedRank::begin_operator(const StepEvent& event) {
  const bool backward = event.mode == Mode::Backward;
  if (!event.units.empty()) {
    driver_.note_backward(backward, /*abandoned=*/false);
    driver_.operator_begins(event.units, event.mode, event.runs_again, "an operator");
    current_ = event.units[0];
  }
  actions_.add_computation(backward ? Kind::Backward : Kind::Forward, current_,
                           clock_.launch(event.launches, event.seconds));
}

void TimedRank::take_gradient(const StepEvent& event) {
  const UnitId unit = event.units[0];
  driver_.note_backward(/*inside=*/true, /*abandoned=*/false);
  driver_.check_gradient(unit);
  if (!driver_.gradient_comes(unit, performer_.has_late(unit))) return performer_.keep_late(unit);
  driver_.gradient_is_there(unit, static_cast<int>(event.number));
}

void TimedRank::end_backward() {
  performer_.set_in_end(true);
  actions_.add(Kind::EndOfBackward, -1, {clock_.now(), clock_.now()});
  driver_.backward_ends();
  performer_.set_in_end(false);
}

void TimedRank::receive(int64_t message) {
  const size_t number = received_[message]++;
  const std::vector<double>& times = mail_.messages[message];
  turns_.wait(turn_, "a message of another stage", [&] { return times.size() > number; });
  actions_.add(Kind::WaitMessage, -1, clock_.wait(times[number], Cause::Idle));
}

// A rank comes to the next meeting after all have come to this one.
void TimedRank::meet(const StepEvent& event) {
  std::vector<double>& times = mail_.meetings;
  times.push_back(clock_.now());
  const size_t first = std::exchange(met_, met_ + static_cast<size_t>(event.number));
  turns_.wait(turn_, "a meeting", [&] { return times.size() >= met_; });
  const double last =
      *std::max_element(times.begin() + static_cast<int64_t>(first), times.begin() + static_cast<int64_t>(met_));
  actions_.add(Kind::Meet, -1, clock_.wait(last + event.seconds, Cause::Idle));
}

void TimedRank::add_step() {
  const auto spent = clock_.take_spent();
  const auto of = [&](Cause cause) { return spent[static_cast<size_t>(cause)]; };
  StepTotals totals{.compute = of(Cause::Compute),
                    .optimizer = of(Cause::Optimizer),
                    .gathers = of(Cause::Gathers),
                    .reductions = of(Cause::Reductions),
                    .end_of_backward = of(Cause::EndOfBackward),
                    .idle = of(Cause::Idle)};
  for (double seconds : spent) totals.step += seconds;
  steps_.push_back({actions_.end_step(), totals, driver_.schedule().record().step()});
}

}  // namespace fsdp::plan
