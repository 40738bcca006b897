#include "training/step_clock.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace trainer {

void StepClock::mark(StepMoment moment) {
  if (moment == StepMoment::Begin) {
    has_before_ = marks_.back().host != Clock::time_point();
    before_ = std::exchange(marks_, Marks());
  }
  Mark& mark = marks_.at(static_cast<size_t>(moment));
  mark.host = Clock::now();
  if (device_.is_cpu()) return;
  mark.device.emplace(device_.type(), c10::EventFlag::BACKEND_DEFAULT);  // with a time
  mark.device->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
}

double StepClock::seconds(const Marks& marks, StepMoment from, StepMoment to) const {
  const Mark &begin = marks.at(static_cast<size_t>(from)), &end = marks.at(static_cast<size_t>(to));
  constexpr double kMillisecond = 1e-3;
  if (begin.device && end.device) return kMillisecond * begin.device->elapsedTime(*end.device);
  return std::chrono::duration<double>(end.host - begin.host).count();
}

double StepClock::passes_seconds() const { return seconds(marks_, StepMoment::Begin, StepMoment::PassesEnd); }

double StepClock::update_seconds() const {
  const double clipping = seconds(marks_, StepMoment::PassesEnd, StepMoment::Clipped);
  if (device_.is_cpu()) return clipping + seconds(marks_, StepMoment::Decided, StepMoment::Updated);
  return has_before_ ? clipping + seconds(before_, StepMoment::Decided, StepMoment::Updated) : clipping;
}

}  // namespace trainer
