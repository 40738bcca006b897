// The maps of block8.h as tables, for loops that pack and unpack by vector instructions.
#pragma once

#include <array>
#include <cstdint>

namespace fsdp::optim {

// A float from 0 to 1 is found by its upper 16 bits, exponent and 7 bits of the mantissa, from 2^-24 on. A key's entry
// has the place of its smallest float in the upper 16 bits. Where the next place begins at another of its floats, that
// one's lower 16 bits and the entry's make 2^16; so an entry plus the lower 16 bits of a float has the float's place in
// its upper 16 bits. The highest key is that of 1, and of all that is not below: its lower bits are not added.
inline constexpr uint32_t kBlock8LowestKey = (127 - 24) << 7, kBlock8HighestKey = 127 << 7;
using Block8Entries = std::array<uint32_t, kBlock8HighestKey - kBlock8LowestKey + 1>;

struct Block8Map {
  const uint32_t* entries;
  const float* values;  // by code, seen as a number from 0 to 255
};

const Block8Map& block8_signed_map();
const Block8Map& block8_unsigned_map();

}  // namespace fsdp::optim
