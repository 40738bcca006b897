// The differences between the clocks of hosts, so that one trace has all of them on one axis.
#pragma once

#include <fsdp/world.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainer {

// The steady clock of a host.
struct HostClock {
  std::string name;              // the same for processes that share it
  std::function<int64_t()> now;  // in nanoseconds
};
// This process's. Its name is that of the running kernel, and of the process's time namespace.
HostClock host_clock();

struct ClockOffset {
  int64_t nanoseconds = 0;  // to be added to this rank's clock: the result is rank 0's
  int64_t error = 0;        // at most, in nanoseconds
};

// The offset of each rank, in rank order. Ranks that share rank 0's clock have none. The first rank with another clock
// sends messages to rank 0, which answers with its time. The shortest of the round trips counts: as in NTP (RFC 5905,
// section 8), the answer was made half a round trip ago, with at most that error. A collective.
std::vector<ClockOffset> clock_offsets(fsdp::World& world, const HostClock& clock = host_clock());

}  // namespace trainer
