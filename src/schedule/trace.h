// The order in which units are used during one period, a training micro-batch or a forward pass without gradients: the
// plan, recorded in the last period, and where in it the present period is.
//
// A use begins when an operator takes a unit that the operator before did not. Pure; not for concurrent use.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

namespace fsdp::schedule {

using UnitId = int;

// In which part of the program an operator runs.
enum class Mode { Forward, ForwardWithoutGradients, Backward };

class Trace {
 public:
  static constexpr int kNever = std::numeric_limits<int>::max();

  // A period that ends is told by `finish` (Linear), or known by its repetition (Cyclic): forward passes without
  // gradients have no event at their end.
  enum class Kind { Linear, Cyclic };
  explicit Trace(Kind kind) : kind_(kind) {}

  void use(UnitId unit);
  // The period is over: what was recorded is the plan from now on.
  void finish();
  // The period is given up, for example because a backward threw; the plan stays.
  void abandon();

  const std::vector<UnitId>& plan() const { return plan_; }
  bool planned() const { return !plan_.empty(); }
  // Whether there is a plan and this period has followed it so far.
  bool on_plan() const { return planned() && on_plan_ && !suspended_; }
  // While suspended, it is as if there were no plan.
  void suspend(bool suspended) { suspended_ = suspended; }
  bool suspended() const { return suspended_; }

  // How many uses from now the next one of `unit` lies, 1 for the very next; kNever where none is planned.
  int distance(UnitId unit) const;
  // The same from the beginning of a period.
  int distance_from_begin(UnitId unit) const;
  // How many units the rest of this period uses, the present use included.
  int units_left() const;
  // The use `steps` after the present one; none beyond the plan's end.
  std::optional<UnitId> ahead(int steps) const;

 private:
  void follow(UnitId unit);
  void detect_repetition();
  void forget_recording();
  void begin_period();

  Kind kind_;
  std::vector<UnitId> plan_;
  std::vector<UnitId> recorded_;  // of this period, or of this pass of a cyclic one
  size_t lag_ = 0;                // uses between the last one and that of the same unit before
  size_t repeated_ = 0;           // uses in a row that are those `lag_` before
  std::optional<size_t> cursor_;  // the present use in the plan; none before the first
  bool on_plan_ = true;
  bool suspended_ = false;
};

}  // namespace fsdp::schedule
