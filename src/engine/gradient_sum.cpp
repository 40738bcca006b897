// What begins and ends the sum of the gradients over ranks and micro-batches (docs/determinism.md).
#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "engine/model.h"

namespace fsdp::engine {

void Model::close_gradients() {
  std::lock_guard lock(mutex_);
  note_mode();
  if (!failure_.empty()) throw Error(failure_);
  FSDP_CHECK(!step_.begun(),
             "this step's optimizer ran inside the backward (step_in_backward): gradients are gone, and cannot be "
             "clipped, unscaled or read any more. Leave step_in_backward() out of steps that need them.");
  close();
}

void Model::close() {
  reduce_open();
  FSDP_CHECK(no_sync_ == 0,
             "the gradients are still each rank's own inside no_sync(). End the scope before clipping or a step.");
  FSDP_CHECK(piece_gradients_.any() || step_.stepped_any(),
             "there is no gradient to clip or to step with. Call backward first.");
  piece_gradients_.close();
}

void Model::set_gradient_divisor(double divisor) {
  FSDP_CHECK(divisor > 0 && std::isfinite(divisor), "set_gradient_divisor: found {}, expected a finite positive number",
             divisor);
  check_step_ended("set_gradient_divisor");
  piece_gradients_.set_divisor(divisor);
}

void Model::begin_no_sync() {
  std::lock_guard lock(mutex_);
  ++no_sync_;
  schedule_->set_local(true);
}

void Model::end_no_sync() noexcept {
  std::lock_guard lock(mutex_);
  schedule_->set_local(--no_sync_ > 0);
}

void Model::zero_grad() {
  std::lock_guard lock(mutex_);
  note_mode();  // one that threw leaves nothing behind
  check_no_step_begun("zero_grad");
  drop_all_gradients();
}

void Model::drop_all_gradients() {
  if (unreduced_) abandon_backward();
  unreduced_ = false;
  for (auto& unit : units_) piece_gradients_.drop(*unit);
  piece_gradients_.reopen();
}

bool Model::trainable(size_t parameter) const {
  const auto behind = std::upper_bound(units_.begin(), units_.end(), parameter,
                                       [](size_t index, const auto& unit) { return index < unit->first_piece; });
  const Unit& unit = **std::prev(behind);
  return unit.parameters[parameter - unit.first_piece].tensor().requires_grad();
}

}  // namespace fsdp::engine
