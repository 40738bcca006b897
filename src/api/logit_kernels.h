// A row of a chunk of logits in memory: what a cross entropy makes of it, by the widest instructions that this
// processor has. The bits are the same with all of them: no instruction rounds once where others round twice, and sums
// are over eight lanes, which are then added up in order. Plain memory, no tensors; the calling thread does the work.
#pragma once

#include <cstdint>
#include <limits>

namespace fsdp {

// The sums of one row so far.
struct LogitRowSums {
  float largest = -std::numeric_limits<float>::infinity();
  float sum = 0;    // of exp(logit - largest)
  float total = 0;  // of the logits, if it is asked for
};

// The gradient of entry v of a row: factor * exp(logit[v] - largest) + everywhere + at_target * (v == target).
struct LogitRowGradient {
  float largest, factor, everywhere, at_target;
  int64_t target;  // its place among these logits, or another number where it is not there
};

// Element: float, or uint16_t for the bits of a bf16.
template <typename Element>
struct LogitKernels {
  void (*add)(const Element* logits, int64_t count, bool with_total, LogitRowSums& to);
  void (*make_gradient)(Element* logits, int64_t count, const LogitRowGradient& of);  // in place
};

template <typename Element>
const LogitKernels<Element>& logit_kernels();
// For instructions that every processor of the kind has.
template <typename Element>
const LogitKernels<Element>& plain_logit_kernels();

}  // namespace fsdp
