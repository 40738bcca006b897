// Random valid programs on several simulated ranks (simulated_ranks.h): every backend's way to gather, every time until
// which units stay full, ranks that use other units or have no batch, steps inside a backward, backwards that throw,
// several micro-batches in flight.
//
// FSDP_PROGRAMS=100000 test_pure --gtest_filter='RandomPrograms.*' draws so many, from FSDP_FIRST_PROGRAM on.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>

#include "schedule/simulated_ranks.h"

namespace fsdp::schedule {
namespace {

using ::testing::Each;

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  int below(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random_); }
  int between(int first, int last) { return first + below(last - first + 1); }
  bool chance(double probability) { return std::bernoulli_distribution(probability)(random_); }

 private:
  std::mt19937_64 random_;
};

struct Model {
  Facts facts = {};
  Limits limits = {};
  std::vector<UnitId> forward = {};  // the order in which a micro-batch uses units
  std::vector<int> trainable = {};   // parameters, by unit
  std::vector<uint8_t> late = {};    // by unit: its gradients come one use later
  double rank_drops_a_use = 0;       // by itself
  double rank_lacks_gradients = 0;   // the same
  // Forwards and backwards of several micro-batches in flight, in this order in every step; none: one by one.
  std::vector<Segment> in_flight = {};
  bool names = false, gives_order = false;
  uint64_t seed = 0;
};

// Any order in which each backward comes behind its forward.
std::vector<Segment> draw_order(Draw& draw) {
  std::vector<Segment> order;
  const int64_t count = draw.between(1, 5);
  std::vector<int64_t> open;
  for (int64_t next = 0; next < count || !open.empty();) {
    if (next < count && (open.empty() || draw.chance(0.6))) {
      open.push_back(next);
      order.push_back({.micro_batch = next++});
    } else {
      const auto which = open.begin() + draw.below(static_cast<int>(open.size()));
      order.push_back({.backward = true, .micro_batch = *which});
      open.erase(which);
    }
  }
  return order;
}

Model draw_model(uint64_t seed) {
  Draw draw(seed);
  Model model{.seed = seed};
  const int units = draw.between(1, 5);
  for (int unit = 0; unit < units; ++unit) {
    model.facts.units.push_back("layers." + std::to_string(unit));
    model.trainable.push_back(draw.between(1, 2));
    model.late.push_back(draw.chance(0.15));
    for (int times = draw.chance(0.2) ? 2 : 1; times > 0; --times) model.forward.push_back(unit);
  }
  if (draw.chance(0.2)) model.forward.push_back(0);  // a tied head
  model.facts.ranks = draw.between(1, 4);
  model.facts.shards = draw.chance(0.7) ? model.facts.ranks : 1;
  if (model.facts.ranks == 4 && draw.chance(0.3)) model.facts.shards = 2;
  const int way = draw.below(3);
  model.facts.one_sided = model.facts.shards == 1 || way == 0;
  model.facts.joins = way == 1;
  model.facts.any_order = way == 1 || model.facts.one_sided;
  model.limits = {.units = units,
                  .buffers = draw.between(1, 3),
                  .prefetch = draw.between(0, 3),
                  .gradient_buffers = draw.between(2, 4),
                  .full_until = static_cast<FullUntil>(draw.below(3))};
  if (model.limits.full_until == FullUntil::ShardsChange && draw.chance(0.5)) model.limits.gradient_buffers = units;
  const bool may_differ =
      model.facts.one_sided || model.facts.joins || model.limits.full_until != FullUntil::BufferNeeded;
  if (may_differ && draw.chance(0.4)) model.rank_drops_a_use = 0.2;
  if (draw.chance(0.3)) model.rank_lacks_gradients = 0.2;
  if (draw.chance(0.4)) {
    model.in_flight = draw_order(draw);
    model.names = draw.chance(0.7);
    model.gives_order = model.names && draw.chance(0.7);
  }
  return model;
}

// One rank's program. `alike` draws the same on all ranks, `own` does not.
class Program {
 public:
  Program(const Model& model, SimulatedRank& rank, int number)
      : model_(model), rank_(rank), number_(number), alike_(model.seed + 1), own_(model.seed * 31 + 7 + number) {}

  void run() {
    if (model_.gives_order) rank_.driver.give_order(model_.in_flight);
    for (int steps = alike_.between(2, 6); steps > 0; --steps) {
      if (alike_.chance(0.1)) evaluate();
      if (alike_.chance(0.1)) rank_.load();
      step();
    }
  }

 private:
  void evaluate() {
    for (UnitId unit : model_.forward) rank_.use(unit, Mode::ForwardWithoutGradients);
  }

  void step() {
    if (!model_.in_flight.empty()) return step_in_flight();
    for (int more = alike_.below(3); more > 0; --more) {
      const bool local = alike_.chance(0.3);
      if (local) rank_.driver.begin_local();
      const bool whole = micro_batch(/*may_throw=*/!local);
      if (local) rank_.driver.end_local();
      if (!whole) return;
    }
    const bool is_early = same_on_all_ranks() && alike_.chance(0.5);
    if (is_early) rank_.driver.open_early_step(&rank_);
    const bool whole = micro_batch(/*may_throw=*/true);
    if (is_early) rank_.driver.close_early_step();
    if (whole) rank_.step();
  }

  void step_in_flight() {
    std::map<int64_t, std::vector<UnitId>> open;
    for (const Segment& segment : model_.in_flight) {
      if (model_.names) rank_.driver.begin_micro_batch(segment.micro_batch);
      if (segment.backward) {
        backward(open.at(segment.micro_batch), /*throws=*/false);
      } else {
        open[segment.micro_batch] = forward();
      }
      if (model_.names) rank_.driver.end_micro_batch(std::nullopt);
    }
    rank_.step();
  }

  // A rank that gets other gradients than the last time can make a step inside the backward impossible.
  bool same_on_all_ranks() const { return model_.rank_drops_a_use == 0 && model_.rank_lacks_gradients == 0; }

  // False: its backward threw, on all ranks.
  bool micro_batch(bool may_throw) {
    // Ranks of which one has begun another reduction cannot go on after it.
    const bool throws = may_throw && same_on_all_ranks() && alike_.chance(0.05);
    if (alike_.chance(0.15)) {
      const int without = alike_.below(model_.facts.ranks + 1);  // the rank, if it is one
      const bool here = number_ != without || model_.facts.ranks == 1;
      rank_.driver.any_rank_has_batch(here);
      if (!here) {
        rank_.driver.backward_without_batch();
        return true;
      }
      forward_and_backward(/*throws=*/false);
      return true;
    }
    forward_and_backward(throws);
    if (!throws) return true;
    rank_.abandon_backward();
    rank_.load();  // it ends a step that the backward began
    rank_.zero_grad();
    return false;
  }

  void forward_and_backward(bool throws) { backward(forward(), throws); }

  // Returns its uses.
  std::vector<UnitId> forward() {
    std::vector<UnitId> uses;
    for (UnitId unit : model_.forward) {
      if (!own_.chance(model_.rank_drops_a_use)) uses.push_back(unit);
    }
    if (uses.empty()) uses = model_.forward;
    for (UnitId unit : uses) rank_.use(unit, Mode::Forward);
    return uses;
  }

  void backward(std::vector<UnitId> uses, bool throws) {
    std::ranges::reverse(uses);
    const size_t end = throws ? uses.size() / 2 : uses.size();
    UnitId late = -1;
    for (size_t i = 0; i < end; ++i) {
      rank_.use(uses[i], Mode::Backward);
      if (late >= 0) gradients(std::exchange(late, -1));
      if (std::find(uses.begin() + static_cast<int64_t>(i) + 1, uses.end(), uses[i]) != uses.end()) continue;
      if (model_.late[uses[i]] != 0) {
        late = uses[i];
      } else {
        gradients(uses[i]);
      }
    }
    if (throws) return;
    if (late >= 0) gradients(late);
    rank_.driver.note_backward(/*inside=*/false, /*abandoned=*/false);
    rank_.driver.backward_ends();
  }

  void gradients(UnitId unit) {
    for (int i = 0; i < model_.trainable[unit]; ++i) {
      if (i > 0 && own_.chance(model_.rank_lacks_gradients)) continue;
      rank_.gradient(unit, own_.between(1, 1000), model_.trainable[unit]);
    }
  }

  const Model& model_;
  SimulatedRank& rank_;
  const int number_;
  Draw alike_, own_;
};

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(RandomPrograms, HoldEverythingThatAnExchangeMustHold) {
  const uint64_t first = number_from("FSDP_FIRST_PROGRAM", 1), count = number_from("FSDP_PROGRAMS", 500);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Model model = draw_model(seed);
    const auto errors = run_simulated(model.facts, model.limits,
                                      [&](SimulatedRank& rank, int number) { Program(model, rank, number).run(); });
    ASSERT_THAT(errors, Each("")) << "FSDP_FIRST_PROGRAM=" << seed << " FSDP_PROGRAMS=1; ranks " << model.facts.ranks
                                  << ", shards " << model.facts.shards << ", one-sided " << model.facts.one_sided
                                  << ", joins " << model.facts.joins << ", full until "
                                  << static_cast<int>(model.limits.full_until);
  }
}

}  // namespace
}  // namespace fsdp::schedule
