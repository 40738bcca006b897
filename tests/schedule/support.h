// Feeds traces to a schedule, as an engine would, and keeps what it answers.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace fsdp::schedule {

class Player {
 public:
  explicit Player(const Limits& limits) : schedule(limits) {}

  // Operators that take these units one after the other.
  void forward(const std::vector<UnitId>& units) {
    for (UnitId unit : units) touch({unit}, Mode::Forward);
  }
  void evaluate(const std::vector<UnitId>& units) {
    for (UnitId unit : units) touch({unit}, Mode::ForwardWithoutGradients);
  }
  void touch(const std::vector<UnitId>& units, Mode mode) {
    add(schedule.operator_begins(units, mode));
    for (UnitId unit : units) EXPECT_EQ(schedule.state(unit), Residency::State::Full) << "unit " << unit;
    schedule.operator_ends(units);
  }
  void backward(UnitId unit) { touch({unit}, Mode::Backward); }
  // In a backward that runs a part of the forward again.
  void run_again(const std::vector<UnitId>& units) {
    schedule.set_runs_again(true);
    for (UnitId unit : units) backward(unit);
    schedule.set_runs_again(false);
  }
  // `count` gradients of a unit that has so many trainable parameters.
  void gradients(UnitId unit, int count, int trainable) {
    for (int i = 0; i < count; ++i) {
      add(schedule.gradient_begins(unit));
      add(schedule.gradient_ends(unit, trainable));
    }
  }
  void end_backward() {
    const UnitCounts counts = schedule.counts();
    for (Actions next; !(next = schedule.reduce_next(counts)).empty();) add(next);
    add(schedule.backward_ends(counts));
  }
  // The optimizer's, of so many units.
  void step(int units) {
    add(schedule.shards_change());
    for (UnitId unit = 0; unit < units; ++unit) add(schedule.shard_changed(unit));
  }
  void abandon_backward() { add(schedule.backward_abandoned()); }

  // Adds the actions, and checks that each is possible where it stands.
  void add(const Actions& more) {
    for (const Action& action : more) {
      if (action.kind == Action::Kind::Gather) {
        EXPECT_EQ(occupant(action.buffer), -1) << to_string(action);
        buffers[action.buffer] = action.unit;
      }
      if (action.kind == Action::Kind::Release) {
        EXPECT_EQ(occupant(action.buffer), action.unit) << to_string(action);
        buffers[action.buffer] = -1;
      }
      actions.push_back(action);
    }
  }

  // Actions since the last call, releases and buffers left out.
  std::vector<std::string> take() {
    std::vector<std::string> names;
    for (Action action : actions) {
      if (action.kind == Action::Kind::Release || action.kind == Action::Kind::OpenGradient) continue;
      action.buffer = -1;
      action.foreseen = false;
      names.push_back(to_string(action));
    }
    actions.clear();
    return names;
  }
  int count(Action::Kind kind, UnitId unit = -1) const {
    int count = 0;
    for (const Action& action : actions) count += action.kind == kind && (unit < 0 || action.unit == unit);
    return count;
  }

  Schedule schedule;
  Actions actions;

 private:
  UnitId occupant(size_t buffer) {
    if (buffer >= buffers.size()) buffers.resize(buffer + 1, -1);
    return buffers[buffer];
  }

  std::vector<UnitId> buffers;
};

// A step of blocks 0..L-1 and nothing else.
inline void block_step(Player& player, int blocks) {
  for (UnitId block = 0; block < blocks; ++block) player.forward({block});
  for (UnitId block = blocks - 1; block >= 0; --block) {
    player.backward(block);
    player.gradients(block, 2, 2);
  }
  player.end_backward();
}

}  // namespace fsdp::schedule
