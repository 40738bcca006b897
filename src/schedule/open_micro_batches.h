// The micro-batches of a step that are open, and the present one, to which events belong.
//
// Without names, events belong to one micro-batch after the other, and each ends with a backward. If a caller has
// several in flight, it names each before its events. Then a forward may lie many backwards before its own backward.
// Pure; not for concurrent use.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "schedule/use_order.h"

namespace fsdp::schedule {

struct MicroBatch {
  std::vector<int> forward_uses;   // of each unit
  std::optional<int64_t> changes;  // of the shards, before the forward of a named one; none: it has used nothing
  bool had_backward = false;
};

class OpenMicroBatches {
 public:
  explicit OpenMicroBatches(int units) : unnamed_{.forward_uses = std::vector<int>(units), .changes = {}} {}

  // Events belong to this one from now on; none: to one without a name. Returns the one before.
  std::optional<int64_t> name(std::optional<int64_t> number) {
    if (number) named_.try_emplace(*number, fresh());
    return std::exchange(number_, number);
  }
  const MicroBatch& current() const { return number_ ? named_.at(*number_) : unnamed_; }
  bool is_named() const { return number_.has_value(); }

  // An operator of a forward begins, after so many changes of the shards. True if it is the first of the micro-batch,
  // or without a name the first since a backward. A number that is used again after its backward, or after a step, is
  // another micro-batch.
  bool forward_begins(int64_t changes) {
    if (!number_) return !std::exchange(in_forward_, true);
    MicroBatch& batch = mine();
    if (batch.had_backward || (batch.changes && *batch.changes != changes)) batch = fresh();
    return !std::exchange(batch.changes, changes);
  }
  void use(UnitId unit) { ++mine().forward_uses[unit]; }
  // True if the shards have changed since the forward of this one, which has a name.
  bool is_outdated(int64_t changes) const { return current().changes.value_or(changes) != changes; }
  void backward_ends() {
    mine().had_backward = true;
    if (!number_) in_forward_ = false;
  }
  // The one without a name is over.
  void period_ends() { unnamed_ = fresh(); }
  // Micro-batches that had a backward are over.
  void step_ends() {
    std::erase_if(named_, [this](const auto& one) { return one.second.had_backward && one.first != number_; });
  }

 private:
  MicroBatch& mine() { return number_ ? named_.at(*number_) : unnamed_; }
  MicroBatch fresh() const { return {.forward_uses = std::vector<int>(unnamed_.forward_uses.size()), .changes = {}}; }

  MicroBatch unnamed_;
  std::map<int64_t, MicroBatch> named_;  // that are open
  std::optional<int64_t> number_;
  bool in_forward_ = false;  // without a name: one has begun since a backward ended
};

}  // namespace fsdp::schedule
