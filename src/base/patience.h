// The deadline of a wait for another process, counted in time in which the waiter itself ran.
//
// A job that is stopped as a whole (Ctrl-Z, a suspended machine) and goes on does not count that time. So a waiter
// checks its patience repeatedly. Between two checks at most a slice counts: a quarter of the whole, so that no pause
// ends a wait by itself. One thread at a time. Pure but for the clock.
#pragma once

#include <algorithm>
#include <chrono>

namespace fsdp {

class Patience {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLongestSlice{500};

  explicit Patience(std::chrono::milliseconds allowed, Clock::time_point now = Clock::now())
      : left_(allowed), slice_(std::min<Clock::duration>(left_ / 4, kLongestSlice)), last_look_(now) {}

  // A look: to be called often while the wait lasts.
  bool is_over(Clock::time_point now = Clock::now()) {
    left_ -= std::min(now - last_look_, slice_);
    last_look_ = now;
    return left_ <= Clock::duration::zero();
  }
  // The next look is due after so long.
  std::chrono::milliseconds until_next_look() const {
    return std::chrono::ceil<std::chrono::milliseconds>(std::clamp(left_, Clock::duration::zero(), slice_ / 2));
  }

 private:
  Clock::duration left_;
  Clock::duration slice_;
  Clock::time_point last_look_;
};

}  // namespace fsdp
