// The program of one rank, as the engine sees it: operators on units, gradients, and the calls around them, in order.
// Durations take the place of tensors. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/use_order.h"

namespace fsdp::plan {

using schedule::Mode;
using schedule::UnitId;

struct StepEvent {
  enum class Kind {
    OperatorBegins,  // an operator takes `units`, each named once, and computes for `seconds`; no units: it takes none
    OperatorEnds,    // it is over; the same `units`
    GradientPlace,   // the gradient of a parameter of the unit is about to be computed, if possible in its buffer
    Gradient,        // a gradient of the unit comes; `number` parameters of the unit want gradients
    BackwardEnds,
    NoSyncBegins,      // from here on gradients stay with the rank
    NoSyncEnds,        //
    MicroBatchBegins,  // events belong to the micro-batch `number` from here on
    MicroBatchEnds,    // to the one before again
    Hold,              // `units` stay full over several passes
    LetGo,             //
    EarlyStepBegins,   // the next backward is the step's last, and the optimizer steps units inside it
    EarlyStepEnds,     //
    SumEnds,           // clipping: the sum of the gradients ends, and `seconds` pass
    Step,              // the optimizer's step over all units, and zero_grad
    Send,              // a message named `number` leaves for another rank of a pipeline
    Receive,           // the rank waits for the message named `number`
    Meet,              // `number` ranks, which are all, wait for each other, and `seconds` pass
  };
  Kind kind;
  std::vector<UnitId> units = {};
  Mode mode = Mode::Forward;  // of an operator
  bool runs_again = false;    // the operator is a part of the forward that the backward repeats
  double seconds = 0;         // of a Send: until the message is there
  int64_t number = 0;
  int launches = 1;  // operators that the host launches for it

  bool operator==(const StepEvent&) const = default;
};

using StepEvents = std::vector<StepEvent>;

// An operator of a pass, or several that take the same units.
struct PassOperator {
  // Gradients that come behind it.
  struct Gradients {
    UnitId unit;
    int count = 1;
  };

  std::vector<UnitId> units = {};  // each named once
  double seconds = 0;
  std::vector<Gradients> gradients = {};
  bool runs_again = false;  // in a backward: a part of the forward that runs again
  int launches = 1;         // operators that the host launches
};

using Pass = std::vector<PassOperator>;

// A training step of micro-batches that are all alike.
struct TrainingStep {
  Pass forward, backward;
  int micro_batches = 1;
  bool accumulates_locally = false;  // all but the last micro-batch run in no_sync
  bool clips = false;
  double clip_seconds = 0;
  bool steps_in_backward = false;  // the optimizer steps units inside the last backward; without clipping
};

// The events of a pass. Appended to `events`.
void add_forward(const Pass& forward, StepEvents& events);
// The parameters of a unit that want gradients are as many as gradients of the unit
// come in the pass. The backward ends behind it. A pass without operators is none: the model does not see it.
void add_backward(const Pass& backward, StepEvents& events);

StepEvents events_of(const TrainingStep& step);

}  // namespace fsdp::plan
