#include "console/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace trainer {

std::string grouped(int64_t number) {
  std::string digits = fmt::format("{}", number);
  const int64_t first = number < 0 ? 1 : 0;
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > first; at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

namespace {

// At most four characters, then the prefix of the power of a thousand.
std::string scaled(double number, const char* separator) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  size_t power = 0;
  while (number >= 999.5 && power + 1 < std::size(kPrefixes)) number /= 1000, ++power;
  const int decimals = power == 0 || number >= 99.95 ? 0 : 1;
  return fmt::format("{:.{}f}{}{}", number, decimals, separator, kPrefixes[power]);
}

}  // namespace

std::string short_number(double number) { return scaled(number, ""); }
std::string short_bytes(size_t bytes) { return scaled(static_cast<double>(bytes), " ") + "B"; }
std::string operation_rate(double rate) { return scaled(rate, " ") + "FLOP/s"; }

std::string duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  const int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string scientific(double number) {
  std::string text = fmt::format("{:.1e}", number);
  const size_t zero = text.find_first_of("+-") + 1;  // 3.0e-03: the exponent has at least two digits
  if (zero < text.size() && text[zero] == '0') text.erase(zero, 1);
  return text;
}

namespace {

// The length of the UTF-8 character at the beginning, 0 when there is none. Lengths and ranges: RFC 3629.
size_t character_length(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned lead = at(0);
  const size_t length = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xe0 && at(1) < 0xa0) || (lead == 0xf0 && at(1) < 0x90);
  const bool outside = (lead == 0xed && at(1) > 0x9f) || (lead == 0xf4 && at(1) > 0x8f);
  return overlong || outside ? 0 : length;
}

bool is_control(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  if (lead == 0xc2) return static_cast<unsigned char>(character[1]) < 0xa0;  // U+0080 .. U+009F
  return (lead < 0x20 && lead != '\n' && lead != '\t') || lead == 0x7f;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t length = character_length(text);
    const std::string_view character = text.substr(0, length);
    result += length == 0 || is_control(character) ? std::string_view("\uFFFD") : character;
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return result;
}

}  // namespace trainer
