// The hash FNV-1a of 64 bits (Fowler, Noll and Vo, http://www.isthe.com/chongo/tech/comp/fnv/). The same on every rank,
// whatever its program was built with.
#pragma once

#include <cstdint>
#include <string_view>

namespace fsdp {

class Fnv1a {
 public:
  // A byte, or a number of more bits as one.
  void add(uint64_t number) { hash_ = (hash_ ^ number) * 1099511628211u; }
  void add(std::string_view bytes) {
    for (const char byte : bytes) add(static_cast<uint64_t>(static_cast<unsigned char>(byte)));
  }
  uint64_t value() const { return hash_; }
  // As ranks exchange it.
  int64_t word() const { return static_cast<int64_t>(hash_); }

 private:
  uint64_t hash_ = 14695981039346656037u;
};

}  // namespace fsdp
