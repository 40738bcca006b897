#include "collectives/shm/peer_copy.h"

#include <cstring>

#include "parallel/for_parts.h"

namespace fsdp::collectives::shm {

void copy_from_peer(void* to, const void* from, int64_t bytes) {
  constexpr int64_t kLeastBytes = int64_t{1} << 20;  // for a thread
  parallel::for_parts(bytes, kLeastBytes, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, end - begin);
  });
}

}  // namespace fsdp::collectives::shm
