#include "schedule/misuse.h"

#include <fmt/format.h>

#include <array>

namespace fsdp::schedule {

namespace {

struct Text {
  const char* message;  // "{}" stands for the call
  // A row of docs/errors.md; none where the row of another misuse says it.
  const char* what_you_did = "";
  const char* what_to_do = "";
};

constexpr std::array<Text, kMisuses> kTexts{{
    {""},
    {"the parameters changed (optimizer step, load or full_parameters) between this backward and its forward. Call "
     "backward before the step, or run the forward again.",
     "`step` between a forward and its backward",
     "Backward first. Autograd saved parameters that the step has changed. The same holds for loading and for a "
     "`full_parameters` scope that wrote."},
    {"a backward came after clipping or a step had ended the sum of the gradients. Call zero_grad() first.",
     "Backward after `clip_grad_norm_` or `step` and before `zero_grad`",
     "The sum of the gradients was closed. Call `zero_grad` after `step`; accumulate with all backwards before "
     "clipping."},
    {"{} came after a backward that threw, which took the gradients of the no_sync() scopes before it along. Call "
     "zero_grad(), and run the micro-batches of this step again.",
     "Clipping, a step or a backward after a backward that threw, where `no_sync()` scopes had summed up gradients",
     "Those sums lay where the backward wrote, and are lost. Call `zero_grad`, and run the micro-batches of this step "
     "again."},
    {"the gradients are still each rank's own inside no_sync(). End the scope before clipping, a step or a piece's "
     "grad().",
     "`step`, `clip_grad_norm_` or a piece's `grad()` inside a `no_sync()` scope",
     "The gradients are still each rank's own. End the scope first."},
    {"found no gradient for clipping or a step. Call backward first.",
     "`step` or `clip_grad_norm_` without a gradient on any rank",
     "Was backward called? Does the loss depend on the parameters, and do they require gradients?"},
    {"{} came inside a backward, from a hook or from a function's backward. Call it when backward() has returned.",
     "`step`, `zero_grad`, a load or another change of the model from a hook that a backward calls",
     "The backward still needs the parameters, and adds to the gradients. Call it when `backward()` has returned."},
    {"{} came inside full_parameters(), which writes its own values back at its end. Close the scope first."},
    {"full_parameters() is open already. Close the first scope before opening another."},
    {"backward_without_batch() is for a rank that has no batch where another has one. Call any_rank_has_batch(false) "
     "on this rank first, and any_rank_has_batch(true) on the other.",
     "`backward_without_batch` on a rank that has a batch, or where no rank has one",
     "Call `any_rank_has_batch(here)` on every rank before each backward. If `here` is false and the result true, call "
     "`backward_without_batch`."},
    {"step_in_backward: found such a scope open, or its step not ended. Call the optimizer's step() after each "
     "backward in a scope, and open one scope at a time."},
    {"step_in_backward: found a backward under way. Open the scope before it."},
    {"{} came during a step, which began inside the backward (step_in_backward). Call the optimizer's step() first.",
     "Clipping, unscaling, reading a gradient, `zero_grad`, another backward, a forward, a save or a change of the "
     "rate between a backward in `step_in_backward()` and its `step`",
     "The step has begun: some shards are new, their gradients gone. Call `step` right after that backward. Leave "
     "`step_in_backward` out of steps that clip or scale."},
    {"{} came during a step, which began inside the backward. A scope of step_in_backward() holds for one backward, "
     "the last of its step: call the optimizer's step() after it."},
    {"this step's optimizer ran inside the backward (step_in_backward): gradients are gone, and cannot be clipped, "
     "unscaled or read any more. Leave step_in_backward() out of steps that need them."},
    {"step: another optimizer has begun this step inside the backward (step_in_backward). Call its step()."},
    {"{} came after the unit was stepped inside this backward, which uses it otherwise than the last one did. Leave "
     "step_in_backward() out of such steps.",
     "A backward in `step_in_backward()` that uses a unit after it was stepped, or brings a gradient of it, as the "
     "backward before did not",
     "That step cannot be undone: load a checkpoint. If the backward depends on the data in this way, do not use "
     "`step_in_backward`."},
    {"{} came before the parameters have values: a deferred module was sharded with options.initialise off. Call "
     "load_pretrained or load_checkpoint first, or sharded.initialise().",
     "A forward, a save or a `full_parameters` scope of a deferred module that was sharded with `initialise = false`",
     "Its parameters have no values yet. Load them (`load_pretrained`, `load_checkpoint`), or call "
     "`sharded.initialise()`."},
    {"{} after some units had been stepped: the parameters are neither those of the step before nor those of this one. "
     "Load a checkpoint.",
     "A backward that throws in `step_in_backward()`, or an optimizer that is destroyed between such a backward and "
     "its `step`",
     "If some units were updated, the parameters belong to two steps, and every call throws until `load_checkpoint`. "
     "If the backward threw on every rank, the process can continue after that load."},
    {"{} came after a load that broke off while it wrote: some parameters are the file's, and some are not. Load a "
     "checkpoint.",
     "A forward, a step, a save or a `full_parameters` scope after a load whose files were changed, or could not be "
     "read any more, when all of them had been checked",
     "Some parameters are the files', some are not, and after `load_checkpoint` the optimizer's state is as before its "
     "first step. Load again. The model can be used when all these parameters are filled."},
}};

}  // namespace

std::string message_of(Misuse misuse, std::string_view call) {
  return fmt::format(fmt::runtime(kTexts.at(static_cast<size_t>(misuse)).message), call);
}

std::string table_of_misuses() {
  std::string table = "| what you did | what to do |\n|---|---|\n";
  for (const Text& text : kTexts) {
    if (*text.what_you_did != '\0') table += fmt::format("| {} | {} |\n", text.what_you_did, text.what_to_do);
  }
  return table;
}

}  // namespace fsdp::schedule
