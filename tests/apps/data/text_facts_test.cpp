#include "data/text_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/utf8.h"

namespace data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TextFacts, AreALineEach) {
  const TextFacts facts{.hidden = {3, ".git"},
                        .binary = {1, "a.bin"},
                        .empty = {2, "empty"},
                        .crlf = {1, "dos.txt"},
                        .not_utf8 = Seen{2, "latin.txt, byte 17"}};
  EXPECT_THAT(fact_lines(facts, /*keeps_bytes=*/false),
              ElementsAre("skipped 3 hidden files and folders, such as .git", "skipped 1 file that is no text, a.bin",
                          "skipped 2 empty files, such as empty", "kept CR LF at the ends of lines, in 1 file, dos.txt",
                          "replaced by U+FFFD bytes that are no UTF-8, in 2 files, such as latin.txt, byte 17"));
  EXPECT_EQ(fact_lines(facts, /*keeps_bytes=*/true).back(),
            "kept bytes that are no UTF-8, in 2 files, such as latin.txt, byte 17");
  EXPECT_THAT(fact_lines({.not_utf8 = Seen{}}, false), IsEmpty());
}

TEST(TextFacts, OfTwoTextsAddUp) {
  const TextFacts one{.hidden = {1, ".a"}, .not_utf8 = Seen{}}, other{.hidden = {2, ".b"}, .crlf = {1, "c"}};
  const TextFacts all = together(one, other);
  EXPECT_EQ(all.hidden, (Seen{3, ".a"}));
  EXPECT_EQ(all.crlf, (Seen{1, "c"}));
  EXPECT_FALSE(all.not_utf8.has_value());  // of the other one nobody knows
  EXPECT_EQ(together(one, one).not_utf8, Seen{});
}

TEST(Utf8, IsValidUpToTheFirstWrongByte) {
  for (const char* text : {"", "a", "caf\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                           "\xf4\x8f\xbf\xbf", "longer than eight bytes \xc3\xa9 and again"}) {
    EXPECT_EQ(valid_utf8_bytes(text), std::string_view(text).size()) << text;
  }
  for (const char* wrong : {"\x80", "\xc3", "\xc0\xaf", "\xc3(", "\xe2\x82", "\xe0\x9f\xbf", "\xed\xa0\x80",
                            "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    for (const size_t before : {0, 1, 7, 8, 9, 100}) {
      EXPECT_EQ(valid_utf8_bytes(std::string(before, 'a') + wrong), before);
      EXPECT_EQ(valid_utf8_bytes(std::string(before, 'a') + wrong + "bcdefghij"), before);
    }
  }
}

}  // namespace
}  // namespace data
