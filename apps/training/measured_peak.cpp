#include "training/measured_peak.h"

#include <fmt/format.h>

#include <algorithm>

#include "console/units.h"

namespace trainer {

std::string MeasuredPeak::check(double rate) {
  if (rate <= flops_) return "";
  const double before = flops_, measured = measure_();
  flops_ = std::max(measured, rate);
  return fmt::format("MFU: a step reached {}, and the measured peak was {}; measured again, it is {}{}",
                     operation_rate(rate), operation_rate(before), operation_rate(measured),
                     measured < rate ? ", so that of the step counts" : "");
}

}  // namespace trainer
