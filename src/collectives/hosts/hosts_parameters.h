// A unit's full parameters on several hosts: where a host's ranks have them, and what crosses the network for that.
//
// Owned by the unit, and used as UnitCollectives (collectives/group.h) says. The calls throw Error, and leave the group
// poisoned.
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/group.h"

namespace fsdp::collectives::shm {
class UnitMemory;
}

namespace fsdp::collectives::hosts {

class HostsContext;

class HostsParameters {
 public:
  virtual ~HostsParameters() = default;
  virtual bool one_sided() const = 0;
  virtual int64_t bytes() const = 0;  // beside the shard, of this rank
  virtual bool begin_write(Readers readers) = 0;
  virtual void publish() = 0;
  virtual void begin_gather(Order order) = 0;
  virtual void* wait_gather() = 0;
  virtual void release() = 0;
};

// True if the unit is gathered each time it is used. Otherwise its host keeps it: because it may, or because the host's
// ranks own all of it.
bool is_gathered_per_use(const HostsContext& context, const GroupUnitSpec& spec);

// The host keeps the unit whole, in memory that its ranks share (kept_parameters.cpp).
std::unique_ptr<HostsParameters> make_kept_parameters(HostsContext& context, const GroupUnitSpec& spec,
                                                      shm::UnitMemory& memory);
// The unit is gathered into one of the host's buffers each time it is used (gathered_parameters.cpp).
std::unique_ptr<HostsParameters> make_gathered_parameters(HostsContext& context, const GroupUnitSpec& spec,
                                                          shm::UnitMemory& memory);

}  // namespace fsdp::collectives::hosts
