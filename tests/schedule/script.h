// A performer, gradients and peers that write down what they are told and answer by a script: the order of a step
// without tensors and processes.
#pragma once

#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "schedule/step_driver.h"

namespace fsdp::schedule {

using Words = std::vector<int64_t>;
using Lines = std::vector<std::string>;

// The lines that begin in one of these ways.
inline Lines only(const Lines& lines, const Lines& beginnings) {
  Lines kept;
  for (const std::string& line : lines) {
    for (const std::string& beginning : beginnings) {
      if (line.starts_with(beginning)) {
        kept.push_back(line);
        break;
      }
    }
  }
  return kept;
}

class Script final : public Performer, public GradientSums, public Peers {
 public:
  // The lines since the last call.
  std::vector<std::string> take() { return std::exchange(lines_, {}); }

  // The answers.
  std::function<Begun(UnitId)> begun = [](UnitId) { return Begun::Yes; };
  std::function<bool(UnitId)> stalls = [](UnitId) { return false; };
  std::function<bool(UnitId)> peers_have_left = [](UnitId) { return true; };
  std::function<std::vector<UnitId>()> corrected = [] { return std::vector<UnitId>(); };
  std::function<std::vector<Words>(const Words&)> peers = [](const Words& own) { return std::vector{own, own}; };
  bool has_gradients = false;
  // Before each line, which it gets: to throw.
  std::function<void(const std::string&)> before = [](const std::string&) {};

  void gather(UnitId unit, int buffer, Order order) override {
    say((order == Order::Any ? "gather in any order " : "gather ") + name(unit) + in(buffer));
  }
  bool gather_stalls(UnitId unit) override { return stalls(unit); }
  void await_gather(UnitId unit) override { say("await " + name(unit)); }
  void gather_for_peers(UnitId unit, int spare) override { say("gather for peers " + name(unit) + in(spare)); }
  void release(UnitId unit, int) override { say("release " + name(unit)); }

  void open_gradients(UnitId unit, int buffer) override { say("open " + name(unit) + in(buffer)); }
  void reduce(UnitId unit, int) override { say("reduce " + name(unit)); }
  Begun has_begun(UnitId unit) override { return begun(unit); }
  void await_reduction(UnitId unit, int, bool used_at_once) override {
    say("reduced " + name(unit) + (used_at_once ? ", to be used" : ""));
    has_gradients = true;
  }
  void move_gradients(int from, int to) override { say("move" + in(from) + " to " + std::to_string(to)); }
  std::vector<UnitId> end_reductions(bool everywhere, bool, int) override {
    say(everywhere ? "end reductions" : "give up reductions");
    return corrected();
  }
  void await_sums() override { say("await sums"); }
  bool sum_is_complete(UnitId) override { return true; }

  void await_readers() override { say("await readers"); }
  bool begin_write(UnitId unit, Readers readers) override {
    if (readers == Readers::Ask && !peers_have_left(unit)) return false;
    const char* const how[] = {"", " in any order", ", peers have left"};
    say("write " + name(unit) + how[static_cast<int>(readers)]);
    return true;
  }
  void publish(UnitId unit) override { say("publish " + name(unit)); }
  void begin_all_writes() override { say("write all"); }
  void publish_all() override { say("publish all"); }
  void change_full(UnitId unit, Order, const std::function<void()>& change) override {
    say("change " + name(unit));
    change();
  }
  void mark_changed() override { say("mark changed"); }
  void begin_updates() override { say("begin updates"); }
  void update(UnitId unit, bool early) override { say((early ? "update early " : "update ") + name(unit)); }
  void read_ahead(UnitId) override {}

  bool any() const override { return has_gradients; }
  bool are_reset() const override { return !has_gradients; }
  void begin() override { say("begin sum"); }
  void end() override { say("end sum"); }
  void drop() override {
    say("drop sum");
    has_gradients = false;
  }
  void give_back() override { say("give back sum"); }
  void settle() override {}
  void forget_late() override {}

  std::vector<Words> all_gather(std::span<const int64_t> words, const std::string& purpose) override {
    say("all ranks: " + purpose);
    return peers({words.begin(), words.end()});
  }
  void ranks_differ(bool differ) override { say(differ ? "ranks differ" : "ranks are alike"); }
  bool reductions_as_before() override { return true; }
  void forward_begins(bool together) override { say(together ? "forward begins" : "forward begins alone"); }
  void backward_ended(bool) override { say("backward ended"); }
  void backward_measured() override {}

 private:
  static std::string name(UnitId unit) { return std::string(1, static_cast<char>('a' + unit)); }
  static std::string in(int buffer) { return " in " + std::to_string(buffer); }
  void say(const std::string& line) {
    before(line);
    lines_.push_back(line);
  }

  std::vector<std::string> lines_;
};

// Units a, b, c, ... of a model on two ranks that share one copy.
inline Facts facts_of_units(int units) {
  Facts facts{.ranks = 2, .shards = 2, .sharers = {1, 1}, .any_order = true, .joins = true};
  for (int unit = 0; unit < units; ++unit) facts.units.emplace_back(1, static_cast<char>('a' + unit));
  return facts;
}

// The same, where gathers need no peer.
inline Facts facts_in_shared_memory(int units) {
  Facts facts = facts_of_units(units);
  facts.one_sided = true;
  return facts;
}

// One rank's program.
class ScriptedRank {
 public:
  explicit ScriptedRank(const Facts& facts, Limits limits = {})
      : units_(facts.count()),
        driver(facts, with_units(limits, facts.count()), script, script, script,
               {.changed = changed, .local_sums = local_sums}) {}

  void use(UnitId unit, Mode mode) {
    driver.note_backward(mode == Mode::Backward, /*abandoned=*/false);
    driver.operator_begins({&unit, 1}, mode, /*runs_again=*/false, "mm");
    driver.operator_ends({&unit, 1});
  }
  void forward() {
    for (UnitId unit = 0; unit < units_; ++unit) use(unit, Mode::Forward);
  }
  // Units have two parameters each. False: the gradient is kept aside.
  bool gradient(UnitId unit) {
    driver.note_backward(/*inside=*/true, /*abandoned=*/false);
    driver.check_gradient(unit);
    if (!driver.gradient_comes(unit, /*has_late=*/false)) return false;
    driver.gradient_is_there(unit, /*trainable=*/2);
    return true;
  }
  void backward(UnitId unit) {
    use(unit, Mode::Backward);
    gradient(unit);
    gradient(unit);
  }
  void backward() {
    for (UnitId unit = units_ - 1; unit >= 0; --unit) backward(unit);
    driver.backward_ends();
  }
  void micro_batch() {
    forward();
    backward();
  }
  void step() {
    driver.step(this);
    driver.zero_grad();
  }

 private:
  static Limits with_units(Limits limits, int units) {
    limits.units = units;
    return limits;
  }
  int units_;

 public:
  Script script;
  std::atomic<bool> changed = false, local_sums = false;
  StepDriver driver;
};

}  // namespace fsdp::schedule
