// The choice whether the ranks of a group lend each other the bytes of long messages (loans.h).
#pragma once

#include <memory>
#include <vector>

#include "collectives/shm/exchange.h"
#include "collectives/shm/process_memory.h"

namespace fsdp::collectives::shm {

// How the ranks of a group read each other's memory. Empty: they do not.
struct Lending {
  std::shared_ptr<const ProcessWord> own;
  std::vector<ProcessMemory> peers;  // by rank

  bool is_on() const { return own != nullptr; }
};

// Ranks lend if each can read the memory of each other, and none has FSDP_SHM_LOANS=off. A part of the operation that
// the exchange has begun. Throws Error for another value of the variable.
Lending choose_lending(Exchange& exchange);

}  // namespace fsdp::collectives::shm
