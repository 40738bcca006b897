// The ways in which a program's calls can come in an order that has no meaning, and the words for each.
//
// StepMachine finds errors in the order of calls. The engine finds errors that depend on a unit or on present
// gradients. A test writes a row for each into docs/errors.md, "The order of a step". Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fsdp::schedule {

enum class Misuse : uint8_t {
  None,
  ShardsChanged,         // a backward, after the parameters that its forward saw have changed
  BackwardAfterClose,    // a gradient for a sum that has ended
  SumLost,               // a backward that threw took the sums of no_sync scopes with it
  SumIsLocal,            // a sum is closed inside no_sync
  NoGradient,            // a sum is closed, and has none
  InsideBackward,        // a call that changes the model, from a hook of a backward
  InsideFullScope,       // a call that reads or changes the shards
  FullScopeOpen,         // a second scope of full_parameters
  NotWithoutBatch,       // backward_without_batch on a rank that has a batch
  EarlyScopeOpen,        // a second scope of step_in_backward, or its step has not ended
  EarlyScopeInBackward,  // that scope, opened in the midst of a backward
  StepBegun,             // a call between a backward in step_in_backward and its step
  UseAfterStepBegan,     // a forward or a backward there
  SumAfterStepBegan,     // clipping, unscaling or reading gradients there
  OtherStepBegun,        // another optimizer's step there
  UnitStepped,           // a backward there uses a unit that was stepped
  NoValues,              // a use of parameters that were sharded without first values
  StepBroken,            // some units were stepped, and the others cannot be
  ValuesLost,            // a load broke off while it wrote
};
inline constexpr int kMisuses = 20;

// The message without a prefix. `call` is what the program did: "save_checkpoint".
std::string message_of(Misuse misuse, std::string_view call);
// The table of docs/errors.md, in Markdown.
std::string table_of_misuses();

}  // namespace fsdp::schedule
