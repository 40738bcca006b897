#include "collectives/world_calls.h"

namespace fsdp::collectives {

void WorldCalls::open(uint64_t world) {
  const std::lock_guard lock(mutex_);
  begun_.emplace(world, 0);
}

uint64_t WorldCalls::begin(uint64_t world) {
  const std::lock_guard lock(mutex_);
  return ++begun_[world];
}

bool WorldCalls::is_awaited_by(const WorldCall& call) const {
  const std::lock_guard lock(mutex_);
  const auto own = begun_.find(call.world);
  return own != begun_.end() && own->second < call.number;
}

}  // namespace fsdp::collectives
