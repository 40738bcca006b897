// The maps of block8.h as tables, for loops that pack and unpack by vector instructions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace fsdp::optim {

// A float from 0 to 1 is found by its upper 16 bits, exponent and 7 bits of the mantissa, from 2^-24 on. A key's entry
// has the place of its smallest float in the upper 16 bits. Where the next place begins at another of its floats, that
// one's lower 16 bits and the entry's make 2^16; so an entry plus the lower 16 bits of a float has the float's place in
// its upper 16 bits. The highest key is that of 1, and of all that is not below: its lower bits are not added.
inline constexpr uint32_t kBlock8LowestKey = (127 - 24) << 7, kBlock8HighestKey = 127 << 7;
using Block8Entries = std::array<uint32_t, kBlock8HighestKey - kBlock8LowestKey + 1>;

// 128 or 256 floats by place, for processors that look up 64 bytes at a time: their lowest bytes, then the next ones.
template <size_t kPlaces>
using Block8Planes = std::array<std::array<uint8_t, kPlaces>, 4>;

// A float of 0 to 1 has the place p or the one below it, so that one comparison with the place's smallest float tells:
// p is the lower one of two lines. There are two for each power of 2 from 2^-31 to 1, as at most one power of 10, where
// a line ends and the next begins, lies between two of these. Heights are in 256ths of a place, half a place above the
// map, so that it is no matter how they are rounded. The last power of 2 is 1 itself.
struct Block8Line {
  std::array<uint16_t, 32> begin, rise;  // the height at the power of 2, and by how much it is higher at the next
};
using Block8Lines = std::array<Block8Line, 2>;

struct Block8Map {
  const uint32_t* entries;
  const float* values;          // by code, seen as a number from 0 to 255
  const uint8_t* value_planes;  // of the values, without a sign, by place
  const uint8_t* begin_planes;  // of the smallest float of each place
  const Block8Lines* lines;
};

const Block8Map& block8_signed_map();
const Block8Map& block8_unsigned_map();

}  // namespace fsdp::optim
