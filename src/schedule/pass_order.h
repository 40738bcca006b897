// The order of uses in forward passes without gradients. Nothing tells where a pass ends: it is known by its
// repetition.
//
// Pure; not for concurrent use.
#pragma once

#include <vector>

#include "schedule/use_order.h"

namespace fsdp::schedule {

class PassOrder final : public UseOrder {
 public:
  PassOrder() : UseOrder(/*repeats=*/true) {}

  void use(UnitId unit);
  // Other periods follow. The recording is the plan from now on, unless a plan was followed: then it ends where the
  // caller stopped and not where a pass does.
  void finish();
  void forget_all();
  // A training micro-batch goes on with `next`, with gradients. Where its forward began without any, as that of a
  // checkpointed block does, these uses are taken from the present pass, which is not whole; else none.
  std::vector<UnitId> take_beginning_of_training(UnitId next);

 private:
  void follow(UnitId unit);
  void detect_repetition();
  void forget_recording();

  size_t lag_ = 0;       // uses between the last one and that of the same unit before
  size_t repeated_ = 0;  // uses in a row that are those `lag_` before
};

}  // namespace fsdp::schedule
