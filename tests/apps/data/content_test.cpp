#include "data/content.h"

#include <gtest/gtest.h>

#include <map>

#include "apps/data/support.h"
#include "data/byte_tokens.h"
#include "data/token_file.h"
#include "support/temporary_folder.h"

namespace data {
namespace {

// Numbers in a row, some of which are others.
class ChangedTokens final : public TokenSource {
 public:
  ChangedTokens(int64_t size, std::map<int64_t, int64_t> others) : size_(size), others_(std::move(others)) {}
  int64_t size() const override { return size_; }
  int64_t limit() const override { return size_; }
  void read(int64_t first, std::span<int64_t> tokens) const override {
    CountingTokens(size_).read(first, tokens);
    for (const auto& [place, token] : others_) {
      const int64_t at = place - first;
      if (at >= 0 && at < static_cast<int64_t>(tokens.size())) tokens[static_cast<size_t>(at)] = token;
    }
  }
  std::string where(int64_t) const override { return "changed"; }

 private:
  int64_t size_;
  std::map<int64_t, int64_t> others_;
};

std::string hash_with(int64_t size, std::map<int64_t, int64_t> others) {
  return content_hash(ChangedTokens(size, std::move(others)));
}

TEST(ContentHash, TellsEachTokenThatChanges) {
  for (const int64_t size : {int64_t{1}, int64_t{1000}, kHashedTogether, 3 * kHashedTogether + 7}) {
    const std::string hash = hash_with(size, {});
    EXPECT_EQ(hash_with(size, {}), hash);
    EXPECT_NE(hash_with(size + 1, {}), hash);
    for (int64_t place = 0; place < size; place += 1 + size / 13) {
      EXPECT_NE(hash_with(size, {{place, 7'000'000}}), hash) << place << " of " << size;
    }
    EXPECT_NE(hash_with(size, {{size - 1, 7'000'000}}), hash);
  }
}

TEST(ContentHash, OfMuchDataIsThatOfAPartOfIt) {
  const int64_t size = kHashedWhole + 12'345;
  const std::string hash = hash_with(size, {});
  EXPECT_NE(hash_with(size, {{0, 7'000'000}}), hash);
  EXPECT_NE(hash_with(size, {{size - 1, 7'000'000}}), hash);
  EXPECT_EQ(hash_with(size, {{kHashedTogether, 7'000'000}}), hash);  // before the second place
}

TEST(ContentHash, IsThatOfTheIdsHoweverTheyAreStored) {
  TemporaryFolder folder;
  std::vector<uint16_t> ids(100'000);
  std::string bytes(ids.size(), '\0');
  for (size_t i = 0; i < ids.size(); ++i) bytes[i] = static_cast<char>(ids[i] = static_cast<uint16_t>(1 + i % 251));
  const TokenFile narrow(folder.write("a.bin", bytes_of(ids)));
  const TokenFile wide(folder.write("b.bin", header_of(20240801, 7, static_cast<int32_t>(ids.size())) +
                                                 bytes_of(std::vector<uint32_t>(ids.begin(), ids.end()))));
  const Tokens text = byte_tokens(std::make_shared<TextFiles>(folder.write("a.txt", bytes)));
  const std::string hash = content_hash(narrow);
  EXPECT_EQ(content_hash(wide), hash);
  EXPECT_EQ(content_hash(*text), hash);
  EXPECT_EQ(read_all(narrow), read_all(*text));  // after their release
}

}  // namespace
}  // namespace data
