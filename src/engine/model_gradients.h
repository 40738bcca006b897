// The gradients of a whole model, and what they are to be multiplied by once their sum has ended
// (docs/determinism.md).
//
// The units hold the values; the step driver decides when a sum begins and ends. The model's lock covers all calls.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "engine/gradient_factors.h"
#include "engine/sharded_unit.h"
#include "schedule/performer.h"

namespace fsdp::engine {

class ModelGradients final : public schedule::GradientSums {
 public:
  // The units outlive it. The divisor is the number of ranks unless set.
  ModelGradients(Units& units, int ranks) : units_(units) { set_divisor(ranks); }

  bool any() const override;
  bool are_reset() const override;
  void begin() override { factors_.clear(); }
  // It is to be multiplied by the closing factors.
  void end() override;
  void drop() override;
  void give_back() override;
  void settle() override;
  void forget_late() override;

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
  // The sum has ended: multiplies every gradient by the outstanding factors.
  void scale_now(const std::vector<ShardedParameter>& parameters);

 private:
  GradientFactors::Product product() const;
  bool any_partly_ended() const;
  std::vector<float> closing_factors() const;

  Units& units_;
  double divisor_ = 1;
  std::vector<GradientFactor> factors_;
};

}  // namespace fsdp::engine
