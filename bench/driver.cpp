// The time that the decisions of a step take: the step driver with a performer that does nothing, for a model of 100
// layers with two gradients each. A simulator pays this for each rank and step that it looks at.
//
//   steps   10,000 steps of one driver
//   ranks   one step of each of 10,000 drivers, which have learnt their plans before
//
//   build/release/bench/bench_driver
#include <benchmark/benchmark.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "schedule/step_driver.h"

namespace {

using namespace fsdp::schedule;

constexpr int kLayers = 100, kGradients = 2, kRanks = 10'000;

struct Nothing final : Performer, GradientSums, Peers {
  void gather(UnitId, int, fsdp::Order) override {}
  bool gather_stalls(UnitId) override { return false; }
  void await_gather(UnitId) override {}
  void gather_for_peers(UnitId, int) override {}
  void release(UnitId, int) override {}
  void open_gradients(UnitId, int) override {}
  void reduce(UnitId, int) override {}
  fsdp::Begun has_begun(UnitId) override { return fsdp::Begun::Yes; }
  void await_reduction(UnitId, int, bool) override {}
  void move_gradients(int, int) override {}
  std::vector<UnitId> end_reductions(bool, bool, int) override { return {}; }
  void await_sums() override {}
  bool sum_is_complete(UnitId) override { return true; }
  void await_readers() override {}
  bool begin_write(UnitId, fsdp::Readers) override { return true; }
  void publish(UnitId) override {}
  void begin_all_writes() override {}
  void publish_all() override {}
  void change_full(UnitId, fsdp::Order, const std::function<void()>&) override {}
  void mark_changed() override {}
  void begin_updates() override {}
  void update(UnitId, bool) override {}
  void read_ahead(UnitId) override {}

  bool any() const override { return true; }
  bool are_reset() const override { return true; }
  void begin() override {}
  void end() override {}
  void drop() override {}
  void give_back() override {}
  void settle() override {}
  void forget_late() override {}

  // Every rank says the same.
  std::vector<std::vector<int64_t>> all_gather(std::span<const int64_t> words, const std::string&) override {
    return {{words.begin(), words.end()}};
  }
  void ranks_differ(bool) override {}
  bool reductions_as_before() override { return true; }
  void forward_begins(bool) override {}
  void backward_ended(bool) override {}
  void backward_measured() override {}
};

Facts facts() {
  Facts facts{.ranks = kRanks, .shards = kRanks, .one_sided = true, .any_order = true};
  for (int layer = 0; layer < kLayers; ++layer) facts.units.push_back("layers." + std::to_string(layer));
  return facts;
}

struct Rank {
  explicit Rank(FullUntil full_until)
      : driver(facts(), {.units = kLayers, .full_until = full_until}, nothing, nothing, nothing,
               {.changed = changed, .local_sums = local_sums}) {}

  void use(UnitId unit, Mode mode) {
    driver.note_backward(mode == Mode::Backward, /*abandoned=*/false);
    driver.operator_begins({&unit, 1}, mode, /*runs_again=*/false, "mm");
    driver.operator_ends({&unit, 1});
  }
  void step() {
    for (UnitId unit = 0; unit < kLayers; ++unit) use(unit, Mode::Forward);
    for (UnitId unit = kLayers - 1; unit >= 0; --unit) {
      use(unit, Mode::Backward);
      for (int i = 0; i < kGradients; ++i) {
        driver.check_gradient(unit);
        driver.gradient_comes(unit, /*has_late=*/false);
        driver.gradient_is_there(unit, kGradients);
      }
    }
    driver.backward_ends();
    driver.step(this);
  }

  Nothing nothing;
  std::atomic<bool> changed = false, local_sums = false;
  StepDriver driver;
};

void steps(benchmark::State& state) {
  Rank rank(static_cast<FullUntil>(state.range(0)));
  for (int i = 0; i < 3; ++i) rank.step();
  for (auto _ : state) {
    for (int i = 0; i < kRanks; ++i) rank.step();
  }
}
void ranks(benchmark::State& state) {
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int i = 0; i < kRanks; ++i) {
    ranks.push_back(std::make_unique<Rank>(static_cast<FullUntil>(state.range(0))));
    for (int step = 0; step < 3; ++step) ranks.back()->step();
  }
  for (auto _ : state) {
    for (auto& rank : ranks) rank->step();
  }
}

// The argument is when full units go: FullUntil.
BENCHMARK(steps)->DenseRange(0, 2)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(ranks)->DenseRange(0, 2)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(3);

}  // namespace

BENCHMARK_MAIN();
