// Compiled for AVX2, and so without any header whose inline functions others share.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fsdp::files {

void update_hash_avx2(void* state, const void* bytes, size_t size);

void update_hash_avx2(void* state, const void* bytes, size_t size) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state), bytes, size);
}

}  // namespace fsdp::files
