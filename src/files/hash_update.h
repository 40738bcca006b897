// How bytes are added to an XXH3 state (xxhash.h) by the widest instructions that this processor has.
#pragma once

#include <cstddef>

namespace fsdp::files {

// `state` is an XXH3_state_t.
using HashUpdate = void (*)(void* state, const void* bytes, size_t size);

// By what every processor of the kind has; also the definition of the bits.
void update_hash(void* state, const void* bytes, size_t size);
// The fastest that this processor has.
HashUpdate fastest_hash_update();

}  // namespace fsdp::files
