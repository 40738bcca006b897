// The peak that a step's MFU is a share of: measured when a run begins, and again when a step is faster.
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace trainer {

// Another program on the machine may slow the first measurement down. Every rank of a run has one, with the same value.
class MeasuredPeak {
 public:
  // `flops`: floating-point operations per second of all ranks together, as measured so far. `measure` measures them
  // again, a collective.
  MeasuredPeak(double flops, std::function<double()> measure) : flops_(flops), measure_(std::move(measure)) {}

  double flops() const { return flops_; }

  // Called with the rate that a step reached, the same on every rank. If the rate is above the peak, the peak is
  // measured again and is then at least this rate. Returns a note for the user; empty if the peak stays. A collective.
  std::string check(double rate);

 private:
  double flops_;
  std::function<double()> measure_;
};

}  // namespace trainer
