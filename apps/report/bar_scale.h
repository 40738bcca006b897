// The axis of bars.
#pragma once

#include <string>

namespace trainer {

// From 0 to `high`, with a tick at every `step` and at both ends.
struct BarScale {
  double high = 1, step = 1;

  // "40.000%" of the picture's width. Values beyond the end are at the end.
  std::string place(double value) const;
  bool cuts(double value) const { return value > high * (1 + 1e-9); }
};

// Has at most five steps, each 1, 2 or 5 times a power of ten. For a value that is not above 0, or not finite: to 1.
BarScale scale_up_to(double value);

// "20 GB" of "20.0 GB".
std::string without_zeros(std::string text);

}  // namespace trainer
