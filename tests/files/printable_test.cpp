// Nothing that a terminal obeys is left in what is shown.
#include "files/printable.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace fsdp::files {
namespace {

TEST(Printable, LeavesTextAsItIs) {
  for (const std::string text : {"", "blocks.4.weight", "größer", "日本語", "😀", "a b"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(printable("\x1b[2Jgone\x07\x7f"), "\\x1b[2Jgone\\x07\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\u009b2J");  // the escape of one character, in UTF-8
  EXPECT_EQ(printable("\x9b"
                      "2J"),
            "\\x9b2J");  // and as a byte
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "gpj.exe"),
            "\\u202egpj.exe");
  EXPECT_EQ(printable("a\nb\tc\r"), "a\\x0ab\\x09c\\x0d");
  EXPECT_EQ(printable_lines("a\nb\tc\r"), "a\nb\tc\\x0d");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
}

TEST(Printable, ShowsBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");           // longer than it has to be
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a pair
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");           // cut off
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(Printable, OfRandomBytesHoldsNoControlCharacter) {
  std::mt19937 random(7);
  for (int round = 0; round < 1000; ++round) {
    std::string bytes(random() % 40, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const std::string shown = printable(bytes);
    for (const char c : shown) EXPECT_FALSE(static_cast<unsigned char>(c) < 0x20 || c == 0x7f);
    EXPECT_EQ(printable(shown), shown);
  }
}

}  // namespace
}  // namespace fsdp::files
