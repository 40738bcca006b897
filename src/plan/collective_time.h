// Collectives in time, by their size and by where their ranks lie. Pure.
#pragma once

#include <cstdint>

#include "plan/hardware.h"

namespace fsdp::plan {

enum class Collective { AllGather, ReduceScatter, AllReduce };

// Ranks that take part, on so many hosts of equally many.
struct Ring {
  int64_t ranks = 1;
  int64_t hosts = 1;
};

// Seconds of a collective alone, for `bytes` of the whole tensor. A ring: a rank sends (n - 1) / n of the bytes, and
// twice that for an all-reduce. Between ranks of one host the hardware's table of the collective counts, if it has one.
double collective_seconds(Collective kind, double bytes, const Ring& ring, const Hardware& hardware);

}  // namespace fsdp::plan
