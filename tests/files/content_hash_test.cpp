// The hash is xxHash's XXH3 with 128 bits, whatever the pieces that it is given.
#include "files/content_hash.h"

#include <gtest/gtest.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <string>

#include "files/hash_update.h"

namespace fsdp::files {
namespace {

// `printf ... | xxhsum -H2` prints these.
TEST(ContentHash, IsTheOneThatXxhsumPrints) {
  EXPECT_EQ(hash_of("", 0), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash_of("abc", 3), "06b05ab6733a618578af5f94892f3950");
}

TEST(ContentHash, DoesNotDependOnThePieces) {
  std::string bytes(100'000, 'x');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
  ContentHash hash;
  size_t piece = 1;
  for (size_t at = 0; at < bytes.size(); at += piece, piece = piece * 3 % 1009 + 1) {
    piece = std::min(piece, bytes.size() - at);
    hash.add(bytes.data() + at, piece);
  }
  EXPECT_EQ(hash.hexadecimal(), hash_of(bytes.data(), bytes.size()));
  EXPECT_EQ(hash.hexadecimal().size(), kHashDigits);
}

// XXH3 has a way of its own for each length up to 240 bytes, and for the stripes and blocks of longer ones.
TEST(ContentHash, IsTheSameByEveryKindOfInstructions) {
  std::string bytes(20'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i + 3 * i / 7);
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 17) {
    XXH3_state_t plain, fastest;
    XXH3_128bits_reset(&plain);
    XXH3_128bits_reset(&fastest);
    for (size_t at = 0; at < size; at += 700) {
      update_hash(&plain, bytes.data() + at, std::min<size_t>(700, size - at));
      fastest_hash_update()(&fastest, bytes.data() + at, std::min<size_t>(700, size - at));
    }
    EXPECT_TRUE(XXH128_isEqual(XXH3_128bits_digest(&plain), XXH3_128bits_digest(&fastest))) << size;
  }
}

TEST(ContentHash, ChangesWithEveryBit) {
  std::string bytes(300, '\0');
  const std::string before = hash_of(bytes.data(), bytes.size());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    EXPECT_NE(hash_of(bytes.data(), bytes.size()), before) << bit;
    bytes[bit / 8] = '\0';
  }
}

}  // namespace
}  // namespace fsdp::files
