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

struct MicroBatchUses {
  std::vector<int> forward_uses;  // of each unit; zeros after a backward
  // The rest is of named ones.
  std::vector<int> uses_before = {};   // its forward's, after the first backward
  std::optional<int64_t> writes = {};  // of the shards, before its first use; none: it was not used
  bool forward_has_begun = false;      // with gradients
  bool had_backward = false;
  int writes_since = 0;  // of the shards
};

class OpenMicroBatches {
 public:
  explicit OpenMicroBatches(int units) : unnamed_{.forward_uses = std::vector<int>(units)} {}
  OpenMicroBatches(const OpenMicroBatches&) = delete;  // one member points to another
  OpenMicroBatches& operator=(const OpenMicroBatches&) = delete;

  // Events belong to this one from now on; none: to one without a name. Returns the name before.
  std::optional<int64_t> name(std::optional<int64_t> number) {
    present_ = number ? &named_.try_emplace(*number, fresh()).first->second : &unnamed_;
    return std::exchange(number_, number);
  }
  const MicroBatchUses& present() const { return *present_; }
  // By the forward that the present backward belongs to.
  int uses_of(UnitId unit) const {
    return present_->uses_before.empty() ? present_->forward_uses[unit] : present_->uses_before[unit];
  }
  bool is_named() const { return number_.has_value(); }

  // An operator of a forward with gradients begins, after so many writes of the shards. True if it is the first of the
  // micro-batch, or without a name the first since a backward.
  bool forward_begins(int64_t writes) {
    if (!number_) return !std::exchange(in_forward_, true);
    renew(writes);
    return !std::exchange(present_->forward_has_begun, true);
  }
  // A forward uses the unit.
  void use(UnitId unit, int64_t writes) {
    if (number_) renew(writes);
    ++present_->forward_uses[unit];
  }
  // True if the shards were written since the first use of the named micro-batch.
  bool is_outdated(int64_t writes) const { return number_ && present_->writes.value_or(writes) != writes; }
  void backward_begins() { present_->had_backward = true; }
  // Another backward of the same forward is one without uses before it: that of a retained graph, or the gradients of
  // parameters that come later than those of inputs.
  void backward_ends() {
    if (number_ && present_->uses_before.empty()) present_->uses_before = present_->forward_uses;
    present_->forward_uses.assign(present_->forward_uses.size(), 0);
    in_forward_ = false;
  }
  // The one without a name is over.
  void period_ends() { unnamed_.forward_uses.assign(unnamed_.forward_uses.size(), 0); }
  // The shards were written, as by a step. Micro-batches that had a backward are over. Others are kept over some more
  // writes, so that their backward is refused.
  void shards_written() {
    for (auto& [number, batch] : named_) ++batch.writes_since;
    std::erase_if(named_, [this](const auto& one) {
      return (one.second.had_backward || one.second.writes_since > kWritesKept) && one.first != number_;
    });
  }

 private:
  static constexpr int kWritesKept = 16;

  // A number that is used again after its backward, or after a write of the shards, is another micro-batch.
  void renew(int64_t writes) {
    if (present_->had_backward || is_outdated(writes)) *present_ = fresh();
    present_->writes = writes;
  }
  MicroBatchUses fresh() const { return {.forward_uses = std::vector<int>(unnamed_.forward_uses.size())}; }

  MicroBatchUses unnamed_;
  std::map<int64_t, MicroBatchUses> named_;
  MicroBatchUses* present_ = &unnamed_;
  std::optional<int64_t> number_;  // of the present one
  bool in_forward_ = false;        // without a name: one has begun since a backward ended
};

}  // namespace fsdp::schedule
