// The parts of a step by the clock of the device that computes it.
//
// A host hands kernels to a GPU and goes on, so its own clock says little about them. There a moment is an event on the
// GPU's stream, and its time is known when the host has waited for it.
#pragma once

#include <c10/core/Event.h>

#include <array>
#include <chrono>
#include <optional>

namespace trainer {

// In the order of a step. The host waits for the losses until Read, and the ranks exchange
// them until Decided.
enum class StepMoment { Begin, PassesEnd, Clipped, Read, Decided, Updated };

class StepClock {
 public:
  explicit StepClock(const c10::Device& device) : device_(device) {}

  // The device reaches this moment when all its earlier work is done.
  void mark(StepMoment moment);
  // The host's time at this moment of the last step.
  std::chrono::steady_clock::time_point host_time(StepMoment moment) const {
    return marks_.at(static_cast<size_t>(moment)).host;
  }
  // Seconds of forward and backward. On a GPU the host must have waited since PassesEnd.
  double passes_seconds() const;
  // Seconds of clipping and of the optimizer. On a GPU the host must have waited since Clipped, and the optimizer's are
  // those of the step before, which the GPU did beside this step's host work.
  double update_seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Mark {
    Clock::time_point host;
    std::optional<c10::Event> device;
  };
  using Marks = std::array<Mark, 6>;

  double seconds(const Marks& marks, StepMoment from, StepMoment to) const;

  c10::Device device_;
  Marks marks_, before_;  // of this step, and of the step before
  bool has_before_ = false;
};

}  // namespace trainer
