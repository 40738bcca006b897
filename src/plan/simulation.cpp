#include "plan/simulation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "plan/timed_rank.h"

namespace fsdp::plan {

namespace {

using schedule::Facts;

void check_time(double seconds, const char* what) {
  FSDP_CHECK(std::isfinite(seconds) && seconds >= 0, "simulate: found {} seconds for {}, expected at least 0", seconds,
             what);
}

void check_times(const std::vector<double>& seconds, int units, const char* what) {
  FSDP_CHECK(seconds.empty() || std::ssize(seconds) == units, "simulate: found times of {} units for {}, expected {}",
             seconds.size(), what, units);
  for (double time : seconds) check_time(time, what);
}

void check_durations(const StepDurations& durations, int units) {
  check_times(durations.gather, units, "gathers");
  check_times(durations.reduce, units, "reductions");
  check_times(durations.replicate, units, "sums of replicas");
  check_times(durations.update, units, "updates");
  check_time(durations.message, "a message");
  check_time(durations.launch, "a launch");
  check_time(durations.slowdown, "the slowdown");
  check_time(durations.straggling, "straggling");
}

void check_event(const StepEvent& event, int units) {
  check_time(event.seconds, "an event");
  FSDP_CHECK(event.launches >= 1, "simulate: found {} launches of an operator, expected at least 1", event.launches);
  for (UnitId unit : event.units)
    FSDP_CHECK(unit >= 0 && unit < units, "simulate: found unit {}, expected one below {}", unit, units);
  using Kind = StepEvent::Kind;
  FSDP_CHECK(event.kind != Kind::Meet || event.number > 0, "simulate: found a meeting of {} ranks, expected at least 1",
             event.number);
  const bool names_one = event.kind == Kind::Gradient || event.kind == Kind::GradientPlace;
  FSDP_CHECK(!names_one || event.units.size() == 1, "simulate: found a gradient of {} units, expected 1",
             event.units.size());
}

void check(const RankToSimulate& rank) {
  const int units = rank.facts.count();
  FSDP_CHECK(rank.limits.units == units, "simulate: found limits of {} units, expected {}", rank.limits.units, units);
  FSDP_CHECK(rank.facts.ranks > 0 && rank.facts.shards > 0 && rank.facts.ranks % rank.facts.shards == 0,
             "simulate: found {} ranks that share the state in groups of {}, expected a divisor", rank.facts.ranks,
             rank.facts.shards);
  check_durations(rank.durations, units);
  for (const StepEvent& event : rank.events) check_event(event, units);
}

// The smallest world in which the driver decides as in this one: ranks that are alike tell each other the same.
Facts with_few_ranks(Facts facts) {
  const int shards = facts.divided() ? 2 : 1, ranks = facts.replicated() ? 2 * shards : shards;
  facts.rank = 0;
  facts.ranks = ranks;
  facts.shards = shards;
  facts.names.clear();
  facts.sharers.assign(ranks, 0);
  std::fill_n(facts.sharers.begin(), shards, 1);
  return facts;
}

// The ranks of one model.
struct SimulatedModel {
  std::vector<size_t> ranks;  // their numbers in the simulation
  std::unique_ptr<ExchangeLog> log = {};
};

std::map<int, SimulatedModel> models_of(std::span<const RankToSimulate> ranks) {
  std::map<int, SimulatedModel> models;
  for (size_t i = 0; i < ranks.size(); ++i) models[ranks[i].model].ranks.push_back(i);
  for (auto& [number, model] : models) {
    const Facts& facts = ranks[model.ranks[0]].facts;
    const auto count = static_cast<int>(model.ranks.size());
    FSDP_CHECK(count == 1 || count == facts.ranks,
               "simulate: found {} ranks of a model on {} ranks, expected all, or 1 that stands for all", count,
               facts.ranks);
    for (size_t i = 0; i < model.ranks.size() && count > 1; ++i) {
      const Facts& own = ranks[model.ranks[i]].facts;
      FSDP_CHECK(own.rank == static_cast<int>(i) && own.ranks == count && own.count() == facts.count(),
                 "simulate: found rank {} of {} at place {} of a model on {} ranks, expected them in order", own.rank,
                 own.ranks, i, count);
    }
    model.log = std::make_unique<ExchangeLog>(count, facts.count());
  }
  return models;
}

}  // namespace

std::vector<std::vector<SimulatedStep>> simulate(std::span<const RankToSimulate> ranks) {
  for (const RankToSimulate& rank : ranks) check(rank);
  const std::map<int, SimulatedModel> models = models_of(ranks);
  RankTurns turns(static_cast<int>(ranks.size()));
  Mail mail;
  std::vector<Facts> facts;
  for (const RankToSimulate& rank : ranks) {
    const bool stands_for_all = models.at(rank.model).ranks.size() == 1;
    facts.push_back(stands_for_all ? with_few_ranks(rank.facts) : rank.facts);
  }
  std::vector<std::unique_ptr<TimedRank>> timed;
  for (size_t i = 0; i < ranks.size(); ++i)
    timed.push_back(std::make_unique<TimedRank>(ranks[i], facts[i], turns, static_cast<int>(i),
                                                *models.at(ranks[i].model).log, mail));
  turns.run([&](int rank) { timed[rank]->run(); });
  std::vector<std::vector<SimulatedStep>> steps;
  for (const auto& rank : timed) steps.push_back(rank->take_steps());
  return steps;
}

SimulatedStep simulate_steady_step(RankToSimulate rank) {
  constexpr int kSteps = 3;
  const StepEvents step = rank.events;
  for (int i = 1; i < kSteps; ++i) rank.events.insert(rank.events.end(), step.begin(), step.end());
  std::vector<SimulatedStep> steps = simulate({&rank, 1}).at(0);
  FSDP_CHECK(steps.size() == kSteps, "simulate: found {} optimizer steps among the events of one step, expected 1",
             steps.size() / kSteps);
  return std::move(steps.back());
}

}  // namespace fsdp::plan
