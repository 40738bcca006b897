// The gradients of a whole model: whether backwards still add to them, and what they are to be multiplied by once their
// sum has ended (docs/determinism.md).
//
// The step machine holds the state of the sum; the units hold the values. The model's lock covers all calls.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/gradient_factors.h"
#include "engine/sharded_unit.h"
#include "schedule/step_machine.h"

namespace fsdp::engine {

class ModelGradients {
 public:
  // All outlive it. The divisor is the number of ranks unless set.
  ModelGradients(Units& units, schedule::StepMachine& machine, int ranks) : units_(units), machine_(machine) {
    set_divisor(ranks);
  }

  // Before a backward adds to the sum. Throws Error where it has ended, unless the user has reset every gradient.
  void check_open(std::string_view call);
  // Ends the sum: it is to be multiplied by the closing factors. `stepped`: some units were stepped already.
  void close(bool stepped);
  // No piece has a gradient from now on, and the next backward begins a new sum.
  void drop();
  bool any() const;

  void set_divisor(double divisor);
  // The factors for a unit whose sum ends. None where some of its gradients are complete: then the others are
  // multiplied at once.
  GradientFactors closing_factors_of(ShardedUnit& unit) const;
  // An operator is about to use these gradients, which are complete from now on, or zero.
  void end_sums(std::span<const interpose::GradientUse> gradients, bool zeroed);
  // Scaling is put off until the values are read, or until `scale_now`. Until then their bytes are refused.
  void scale(GradientFactor factor);
  // For users of every gradient, which is complete now. Sums in memory are to be multiplied in place, and their bytes
  // may be read. Those in files keep their factors: until an operator reads them, their bytes are refused.
  GradientFactors factors_for_use();
  void scale_now(const std::vector<ShardedParameter>& parameters);

 private:
  GradientFactors::Product product() const;
  bool any_partly_ended() const;
  bool any_to_drop() const;
  std::vector<float> closing_factors() const;

  Units& units_;
  schedule::StepMachine& machine_;
  double divisor_ = 1;
  std::vector<GradientFactor> factors_;
};

}  // namespace fsdp::engine
