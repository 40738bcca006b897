// Eight bytes at a time by eight tables: M. E. Kounavis and F. L. Berry, "Novel Table Lookup-Based Algorithms for
// High-Performance CRC Generation", IEEE Transactions on Computers 57 (2008).
#include "formats/crc32.h"

#include <array>
#include <cstring>

namespace fsdp::formats {

namespace {

constexpr uint32_t kPolynomial = 0xEDB88320;  // its bits in reverse, as the checksum takes bytes from their lowest bit
constexpr size_t kTables = 8;

using Tables = std::array<std::array<uint32_t, 256>, kTables>;

// Table k has the checksum of a byte that k zero bytes follow.
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < kTables; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 255];
    }
  }
  return tables;
}

constexpr Tables kTable = make_tables();

}  // namespace

uint32_t crc32(uint32_t crc, const void* bytes, size_t size) {
  const auto* next = static_cast<const unsigned char*>(bytes);
  crc = ~crc;
  for (; size >= kTables; size -= kTables, next += kTables) {
    uint32_t low = 0, high = 0;
    std::memcpy(&low, next, sizeof low);
    std::memcpy(&high, next + sizeof low, sizeof high);
    low ^= crc;
    crc = kTable[7][low & 255] ^ kTable[6][low >> 8 & 255] ^ kTable[5][low >> 16 & 255] ^ kTable[4][low >> 24] ^
          kTable[3][high & 255] ^ kTable[2][high >> 8 & 255] ^ kTable[1][high >> 16 & 255] ^ kTable[0][high >> 24];
  }
  for (; size > 0; --size, ++next) crc = (crc >> 8) ^ kTable[0][(crc ^ *next) & 255];
  return ~crc;
}

}  // namespace fsdp::formats
