// How bytes come here from a peer's memory.
#pragma once

#include <cstdint>

namespace fsdp::collectives::shm {

// By all threads that LibTorch has for this rank: one alone does not fill the way between two memory nodes.
void copy_from_peer(void* to, const void* from, int64_t bytes);

}  // namespace fsdp::collectives::shm
