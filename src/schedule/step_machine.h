// Where a program is in its step, and what each of its calls means there: go on, or which misuse it is.
//
// The state is a value on each of five axes. Some values are situations in which a call may be misuse; one table
// (step_machine.cpp) has a cell for each call and situation, and nothing else checks the order of calls. misuse.h has
// the words. Pure; the owner serialises all calls.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "schedule/misuse.h"

namespace fsdp::schedule {

// The phase of the micro-batch.
enum class MicroBatchPhase : uint8_t { Forward, Backward };

// The phase of the sum of the gradients over ranks and micro-batches.
enum class SumPhase : uint8_t {
  Open,        // backwards add to it
  Incomplete,  // a backward threw and took with it what no_sync scopes had summed up
  Closed,      // clipping, a step or a reader of gradients has ended it
};

// The phase of a step that begins inside a backward (step_in_backward).
enum class EarlyStepPhase : uint8_t {
  None,
  LastBackward,  // the scope is open: its backward is the last of the step
  Stepping,      // that backward is over: the optimizer's step() does the rest
  Broken,        // some units were stepped, and the others cannot be
};

// The phase of the parameters' values.
enum class ValuePhase : uint8_t {
  There,
  Missing,  // a deferred module was sharded without first values
  Lost,     // a load broke off while it wrote: some are new, and some are not
};

// A call of the program's, or an event that LibTorch tells of it.
enum class Call : uint8_t {
  UseParameter,          // an operator takes one, in a forward or a backward
  AddGradient,           // a backward brings one
  CloseSum,              // clipping, unscaling, reading a gradient
  Step,                  //
  ZeroGrad,              //
  ChangeSettings,        // the divisor, a learning rate; asking for batches
  BackwardWithoutBatch,  //
  OpenStepInBackward,    //
  OpenFullParameters,    //
  ReadState,             // full_state and saves
  WriteState,            // loads, and operators of the user's on pieces
  LoadCheckpoint,        //
};
inline constexpr int kCalls = 12;

// Where a call may be misuse, the most urgent first.
enum class Situation : uint8_t {
  Broken,
  Stepping,
  InsideBackward,
  FullScope,
  LastBackward,
  NoSync,
  Incomplete,
  Closed,
  NoValues,
  ValuesLost
};
inline constexpr int kSituations = 10;

// A cell of the table.
Misuse misuse_of(Call call, Situation situation);

class StepMachine {
 public:
  // The misuse that the call would be now; None: it may go on.
  Misuse check(Call call) const { return situations_ == 0 ? Misuse::None : check_situations(call); }

  // Calls that went on, and events, move the machine.
  void backward_begins() {
    if (micro_batch_ != MicroBatchPhase::Backward) micro_batch_ = MicroBatchPhase::Backward, update();
  }
  void backward_ends() { micro_batch_ = MicroBatchPhase::Forward, update(); }
  // A backward threw. `lost`: and so the sums of no_sync scopes are gone.
  void backward_abandoned(bool lost);
  void close_sum() { sum_ = SumPhase::Closed, update(); }
  void reset_sum() { sum_ = SumPhase::Open, update(); }
  void open_no_sync() { ++no_sync_, update(); }
  void close_no_sync() { --no_sync_, update(); }
  void open_full_scope() { full_scope_ = true, update(); }
  void close_full_scope() { full_scope_ = false, update(); }
  void open_last_backward() { early_step_ = EarlyStepPhase::LastBackward, update(); }
  void begin_stepping() { early_step_ = EarlyStepPhase::Stepping, update(); }
  // `why`: what broke it off, for messages.
  void break_step(std::string why);
  void miss_values() { values_ = ValuePhase::Missing, update(); }
  void lose_values() { values_ = ValuePhase::Lost, update(); }
  void have_values() { values_ = ValuePhase::There, update(); }
  void end_step() { early_step_ = EarlyStepPhase::None, update(); }

  SumPhase sum() const { return sum_; }
  EarlyStepPhase early_step() const { return early_step_; }
  bool in_backward() const { return micro_batch_ == MicroBatchPhase::Backward; }
  bool in_full_scope() const { return full_scope_; }
  bool in_no_sync() const { return no_sync_ > 0; }
  const std::string& why_broken() const { return why_broken_; }

 private:
  Misuse check_situations(Call call) const;
  bool is(Situation situation) const;
  void update();

  MicroBatchPhase micro_batch_ = MicroBatchPhase::Forward;
  SumPhase sum_ = SumPhase::Open;
  EarlyStepPhase early_step_ = EarlyStepPhase::None;
  ValuePhase values_ = ValuePhase::There;
  int no_sync_ = 0;  // scopes that are open
  bool full_scope_ = false;
  std::string why_broken_;
  uint32_t situations_ = 0;  // a bit for each that holds: calls are checked at every operator
};

}  // namespace fsdp::schedule
