// A hash that finds damage: XXH3 with 128 bits (https://xxhash.com), of xxHash, at the speed of memory.
//
// It tells a flipped bit, a truncated file or the file of another step. It is not cryptographic: who can write a
// checkpoint can write a matching hash as well (docs/security.md). One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace fsdp::files {

inline constexpr size_t kHashDigits = 32;

class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  ContentHash(ContentHash&&) noexcept;

  void add(const void* bytes, size_t size);
  std::string hexadecimal() const;  // kHashDigits lower-case digits, of all that was added

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hash_of(const void* bytes, size_t size);

}  // namespace fsdp::files
