// Operators in time: seconds of a device and of the host that launches its work. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/hardware.h"

namespace fsdp::plan {

// Kernels that run one after the other.
struct Work {
  // A product of [m, k] and [k, n], `batch` times. m is 0: no product.
  int64_t m = 0, n = 0, k = 0, batch = 1;
  double rate = 1;            // share of the product's usual rate
  double attention = 0;       // operations of attention in one kernel
  double attention_rate = 1;  // per second
  double bytes = 0;           // that other kernels read and write
  double kernels = 1;
  double seconds = 0;       // of the device, in addition: of an exchange between ranks
  double host_seconds = 0;  // of the host, in addition
};

Work product(int64_t m, int64_t n, int64_t k, int64_t batch = 1, double rate = 1);
Work memory_pass(double bytes, double kernels = 1);
Work launches(double kernels);
void append(std::vector<Work>& works, const std::vector<Work>& more);
// Two products for each: of the gradient of its first operand, and of its second.
std::vector<Work> gradients_of(const std::vector<Work>& products);

// Seconds of a product. Tiles of several sizes are tried: a device computes `processors` of them beside each other, and
// a tile takes as long as `half_depth` more entries of k for its beginning and its end.
double product_seconds(int64_t m, int64_t n, int64_t k, int64_t batch, double rate, const Hardware& hardware);

// Seconds of the device. `element` is the bytes of an element: 2 or 4.
double device_seconds(const Work& work, const Hardware& hardware, int64_t element);

// Kernels in sequence: a host launches them one by one, and a device runs them. The host goes on by `host`. The device
// is done `device` after it was free, or `joint` after the host began, whichever is later.
struct WorkTime {
  double host = 0, device = 0, joint = 0;

  WorkTime then(const WorkTime& next) const;
  double alone() const { return joint > host ? joint : host; }
};

// `launch` is the host's seconds for one kernel. `exposed` is the share of the smaller of the two times that the larger
// does not hide.
WorkTime time_of(const std::vector<Work>& works, const Hardware& hardware, double launch, int64_t element,
                 double exposed = 0);

}  // namespace fsdp::plan
