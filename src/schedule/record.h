// The schedule's decisions in one step, for people to read: which units were used, and which actions that caused, from
// one change of the shards to the next.
//
// Pure; not for concurrent use.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/action.h"
#include "schedule/use_order.h"

namespace fsdp::schedule {

struct Event {
  enum class Kind { Use, EndOfBackward, Action };
  Kind kind;
  Mode mode = Mode::Forward;  // of a use
  Action action = {};         // of a use its unit alone
  bool operator==(const Event&) const = default;
};

// A micro-batch, or several alike in a row.
struct MicroBatches {
  int count = 1;
  std::vector<uint8_t> full_before;  // per unit
  std::vector<Event> events;
};

struct Step {
  std::vector<MicroBatches> micro_batches;  // one after the other
  Actions behind;                           // what came after the last backward, the change of the shards included
};

class Record {
 public:
  explicit Record(int units) : full_(units) {}

  void begin_micro_batch();
  void use(UnitId unit, Mode mode);
  // Actions from now on belong to the end of the backward.
  void end_of_backward();
  // Inside of a micro-batch, or of an evaluation, which leaves no trace here.
  void add(const Actions& actions);
  void end_micro_batch();
  void abandon_micro_batch() { open_ = false; }
  // Outside of any micro-batch.
  void add_behind(const Actions& actions);
  void end_step();
  // In the step that has ended last, once its shards were written.
  void add_to_last_step(const Actions& actions);

  // The last one that ended; before any did, what there is of the first.
  const Step& step() const { return steps_ > 0 ? last_ : step_; }
  int64_t steps() const { return steps_; }

 private:
  void note_full(const Actions& actions);

  std::vector<uint8_t> full_;  // per unit, now
  MicroBatches micro_batch_;   // the present one
  bool open_ = false;          // whether there is one
  bool ends_ = false;          // whether its backward does
  Step step_, last_;
  int64_t steps_ = 0;
};

}  // namespace fsdp::schedule
