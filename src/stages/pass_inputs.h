// When the input of each pass is there. Every loop that goes through a schedule in the order of its dependencies uses
// it.
//
// The input of a forward is the output of the stage before. A backward needs the gradient from the stage behind; that
// of the last stage needs its own output. Not for concurrent use.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "stages/stage_schedule.h"

namespace fsdp::stages {

class PassInputs {
 public:
  PassInputs(int stages, int micro_batches)
      : micro_batches_(static_cast<size_t>(micro_batches)),
        forwards_(stages * micro_batches_, kAbsent),
        backwards_(stages * micro_batches_, kAbsent) {
    std::fill_n(forwards_.begin(), micro_batches, 0.0);
  }

  bool has(const StageAction& pass) const { return arrival(pass) != kAbsent; }
  // The time at which the input is there: 0 for a pass that waits for no other stage.
  double arrival(const StageAction& pass) const {
    if (pass.kind == StageAction::Kind::Forward) return forwards_[index(pass)];
    return makes_input_gradient(pass.kind) ? backwards_[index(pass)] : 0;
  }
  // Gives the result of this pass to the pass that needs it.
  void deliver(const StageAction& pass, double time) {
    if (pass.kind == StageAction::Kind::Forward) {
      const size_t next = index(pass) + micro_batches_;
      (next < forwards_.size() ? forwards_[next] : backwards_[index(pass)]) = time;
    } else if (makes_input_gradient(pass.kind) && pass.stage > 0) {
      backwards_[index(pass) - micro_batches_] = time;
    }
  }

 private:
  static constexpr double kAbsent = std::numeric_limits<double>::infinity();

  size_t index(const StageAction& pass) const {
    return static_cast<size_t>(pass.stage) * micro_batches_ + static_cast<size_t>(pass.micro_batch);
  }

  size_t micro_batches_;
  std::vector<double> forwards_, backwards_;  // when the input is there, by stage and micro-batch
};

}  // namespace fsdp::stages
