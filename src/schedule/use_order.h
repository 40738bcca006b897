// The order in which units are used in one kind of period: the plan, which is what a period like it was seen to use,
// and where in it the present period is.
//
// A use begins when an operator takes a unit that the operator before did not. PeriodOrder and PassOrder learn plans,
// each in its way; this part follows one. Pure; not for concurrent use.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

namespace fsdp::schedule {

using UnitId = int;

// In which part of the program an operator runs.
enum class Mode { Forward, ForwardWithoutGradients, Backward };

class UseOrder {
 public:
  static constexpr int kNever = std::numeric_limits<int>::max();

  const std::vector<UnitId>& plan() const { return plan_; }
  bool planned() const { return !plan_.empty(); }
  // True if there is a plan and this period has followed it so far.
  bool on_plan() const { return planned() && place_ == Place::Foreseen && !suspended_; }
  // While suspended, it is as if there were no plan, and nothing is learnt: some rank does not see this period.
  void suspend(bool suspended) { suspended_ = suspended; }
  bool suspended() const { return suspended_; }

  // How many uses from now the next one of `unit` lies, 1 for the very next; kNever where none is planned.
  int distance(UnitId unit) const;
  // True if the rest of this period, the present use included, uses fewer units than that.
  bool uses_fewer_than(int units) const;
  // The use `steps` after the present one; none beyond the plan's end.
  std::optional<UnitId> ahead(int steps) const;

 protected:
  // A recording that never ends is of no use as a plan; this bounds what it costs.
  static constexpr size_t kLongestRecording = 1 << 16;

  // Where the present period is with respect to the plan.
  enum class Place {
    Foreseen,  // every use was the plan's next
    Turned,    // up to the use before the plan was another, with the same beginning
    Lost,      // some use was none that the plan had next
  };

  // `repeats`: after the plan's end it begins anew.
  explicit UseOrder(bool repeats) : repeats_(repeats) {}
  ~UseOrder() = default;

  void set_plan(std::vector<UnitId> plan);
  // Where the plan's next use lies: its end, if there is none.
  size_t next() const;
  // The plan has no such use next: finds the place where it goes on.
  void lose_the_place(UnitId unit);
  void forget_place();

  std::vector<UnitId> recorded_;  // of this period, or of the latest passes of a repeated one
  std::optional<size_t> cursor_;  // the present use in the plan; none before the first
  Place place_ = Place::Foreseen;

 private:
  // The unit's first use in the plan from this place on, the plan's beginning following its end; the plan has one.
  size_t next_use(UnitId unit, size_t place) const;
  bool uses(UnitId unit) const { return static_cast<size_t>(unit) < places_.size() && !places_[unit].empty(); }

  std::vector<UnitId> plan_;
  std::vector<std::vector<size_t>> places_;  // in the plan, by unit, ascending: looked up at every gather
  bool repeats_;
  bool suspended_ = false;
};

}  // namespace fsdp::schedule
