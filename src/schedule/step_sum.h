// The sum of the gradients in a step: when it begins, and when it ends. The step machine holds its phase.
#pragma once

#include <string_view>

#include "schedule/performer.h"
#include "schedule/refuse.h"
#include "schedule/step_machine.h"

namespace fsdp::schedule {

class StepSum {
 public:
  // Both outlive it.
  StepSum(StepMachine& machine, GradientSums& sums) : machine_(machine), sums_(sums) {}

  // Before a backward adds to the sum. Throws Error where it has ended, unless the user has reset every gradient.
  void check_open(std::string_view call) {
    if (machine_.sum() == SumPhase::Closed && sums_.are_reset()) {
      machine_.reset_sum();
      sums_.begin();
    }
    check_call(machine_, Call::AddGradient, call);
  }
  // Ends it. `stepped`: some units were stepped already, so that their gradients have gone. Throws Error if there is
  // no gradient otherwise.
  void close(bool stepped) {
    if (!sums_.any() && !stepped) refuse(Misuse::NoGradient, "");
    if (machine_.sum() == SumPhase::Closed) return;
    machine_.close_sum();
    sums_.end();
  }
  // The next backward begins a new one.
  void drop() {
    sums_.drop();
    machine_.reset_sum();
  }
  void give_back() { sums_.give_back(); }

 private:
  StepMachine& machine_;
  GradientSums& sums_;
};

}  // namespace fsdp::schedule
