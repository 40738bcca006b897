#include "data/text_kind.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace data {

namespace {

using namespace std::string_view_literals;

struct Mark {
  std::string_view bytes;
  const char* name;
  const char* command;
};

// In this order: the mark of UTF-32 begins with that of UTF-16.
constexpr std::array kMarks = {Mark{"\xff\xfe\0\0"sv, "UTF-32", "iconv -f UTF-32 -t UTF-8"},
                               Mark{"\0\0\xfe\xff"sv, "UTF-32", "iconv -f UTF-32 -t UTF-8"},
                               Mark{"\xff\xfe"sv, "UTF-16", "iconv -f UTF-16 -t UTF-8"},
                               Mark{"\xfe\xff"sv, "UTF-16", "iconv -f UTF-16 -t UTF-8"},
                               Mark{"\x1f\x8b\x08"sv, "compressed with gzip", "gunzip -c"},
                               Mark{"\x28\xb5\x2f\xfd"sv, "compressed with zstd", "zstd -dc"},
                               Mark{"\xfd"
                                    "7zXZ\0"sv,
                                    "compressed with xz", "xz -dc"},
                               Mark{"PK\x03\x04"sv, "a zip archive", "unzip -p"},
                               Mark{"%PDF-"sv, "a PDF", "pdftotext - - <"}};

bool is_bzip2(std::string_view text) {  // its fourth byte is a level
  return text.size() >= 10 && text.starts_with("BZh") && text.substr(4, 6) == "1AY&SY";
}

uint32_t number_at(std::string_view text, size_t first, size_t bytes, bool big_endian) {
  uint32_t number = 0;
  for (size_t i = 0; i < bytes; ++i) {
    const size_t shift = 8 * (big_endian ? bytes - 1 - i : i);
    number |= static_cast<uint32_t>(static_cast<unsigned char>(text[first + i])) << shift;
  }
  return number;
}

bool is_of_texts(uint32_t character) {
  return character >= 0x20 ? character <= 0x10ffff : character >= '\t' && character <= '\r';
}

// Returns whether these are characters of text of so many bytes each, half of them ASCII.
bool is_text_in(std::string_view text, size_t bytes, bool big_endian) {
  constexpr size_t kLeast = 4;  // characters: fewer may be anything
  const size_t characters = text.size() / bytes;
  size_t ascii = 0;
  for (size_t i = 0; i < characters; ++i) {
    const uint32_t character = number_at(text, i * bytes, bytes, big_endian);
    if (!is_of_texts(character)) return false;
    ascii += character < 0x80 ? 1 : 0;
  }
  return characters >= kLeast && 2 * ascii >= characters;
}

}  // namespace

std::optional<OtherForm> other_form(std::string_view beginning) {
  for (const Mark& mark : kMarks) {
    if (beginning.starts_with(mark.bytes)) return OtherForm{mark.name, mark.command};
  }
  if (is_bzip2(beginning)) return OtherForm{"compressed with bzip2", "bunzip2 -c"};
  for (const size_t bytes : {4, 2}) {
    for (const bool big_endian : {false, true}) {
      if (!is_text_in(beginning, bytes, big_endian)) continue;
      const std::string name = fmt::format("UTF-{}{}", 8 * bytes, big_endian ? "BE" : "LE");
      return OtherForm{name, fmt::format("iconv -f {} -t UTF-8", name)};
    }
  }
  return std::nullopt;
}

}  // namespace data
