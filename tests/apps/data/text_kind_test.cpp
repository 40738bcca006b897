#include "data/text_kind.h"

#include <gtest/gtest.h>

namespace data {
namespace {

// In units of `bytes`, without a mark.
std::string in_units(const std::u32string& text, size_t bytes, bool big_endian) {
  std::string units;
  for (const char32_t character : text) {
    for (size_t i = 0; i < bytes; ++i) {
      units += static_cast<char>(character >> (8 * (big_endian ? bytes - 1 - i : i)));
    }
  }
  return units;
}

std::string form_of(const std::string& beginning) {
  const auto form = other_form(beginning);
  return form ? form->name : "text";
}

TEST(TextKind, KnowsUtf16AndUtf32ByTheirMarks) {
  const std::u32string text = U"\xfeff\x8a9e\x8a00";
  EXPECT_EQ(form_of(in_units(text, 2, false)), "UTF-16");
  EXPECT_EQ(form_of(in_units(text, 2, true)), "UTF-16");
  EXPECT_EQ(form_of(in_units(text, 4, false)), "UTF-32");
  EXPECT_EQ(form_of(in_units(text, 4, true)), "UTF-32");
}

TEST(TextKind, KnowsThemWithoutAMark) {
  const std::u32string text = U"In the beginning\r\nwas \x201cthe word\x201d.\n";
  EXPECT_EQ(form_of(in_units(text, 2, false)), "UTF-16LE");
  EXPECT_EQ(form_of(in_units(text, 2, true)), "UTF-16BE");
  EXPECT_EQ(form_of(in_units(text, 4, false)), "UTF-32LE");
  EXPECT_EQ(form_of(in_units(text, 4, true)), "UTF-32BE");
  EXPECT_EQ(other_form(in_units(text, 2, true))->command, "iconv -f UTF-16BE -t UTF-8");
}

TEST(TextKind, KnowsCompressedFiles) {
  EXPECT_EQ(form_of(std::string("\x1f\x8b\x08\0\0\0\0\0", 8)), "compressed with gzip");
  EXPECT_EQ(form_of("\x28\xb5\x2f\xfd and more"), "compressed with zstd");
  EXPECT_EQ(form_of("BZh91AY&SY and more"), "compressed with bzip2");
  EXPECT_EQ(form_of(std::string("\xfd"
                                "7zXZ\0",
                                6)),
            "compressed with xz");
  EXPECT_EQ(form_of("PK\x03\x04 and more"), "a zip archive");
}

TEST(TextKind, TakesOtherBytesForText) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const std::string& text :
       {std::string(), std::string("a"), std::string("a\0", 2), std::string(100, '\0'), all,
        std::string("BZh9 is a name"), std::string("PKZIP"), std::string("caf\xe9\n"),
        std::string("\xef\xbb\xbfwith a mark\n"), std::string("\x07\0\x08\0\x20\0\x21\0\x22\0", 10)}) {
    EXPECT_EQ(form_of(text), "text") << text;
  }
}

}  // namespace
}  // namespace data
