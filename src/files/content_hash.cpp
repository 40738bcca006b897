#include "files/content_hash.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL  // nothing to link with
#include <xxhash.h>

#include "files/hash_update.h"

namespace fsdp::files {

void update_hash(void* state, const void* bytes, size_t size) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state), bytes, size);
}

// The state has an alignment that make_unique keeps.
struct ContentHash::State {
  XXH3_state_t hash;
};

ContentHash::ContentHash() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->hash); }
ContentHash::~ContentHash() = default;
ContentHash::ContentHash(ContentHash&&) noexcept = default;

void ContentHash::add(const void* bytes, size_t size) {
  static const HashUpdate update = fastest_hash_update();
  update(&state_->hash, bytes, size);
}

std::string ContentHash::hexadecimal() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->hash);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string hash_of(const void* bytes, size_t size) {
  ContentHash hash;
  hash.add(bytes, size);
  return hash.hexadecimal();
}

}  // namespace fsdp::files
