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

std::string counted(int64_t number, const char* one, const char* many) {
  if (number == 1) return fmt::format("1 {}", one);
  return many == nullptr ? fmt::format("{} {}s", grouped(number), one) : fmt::format("{} {}", grouped(number), many);
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
  constexpr double kMost = 1e15;  // of a file that a stranger wrote; beyond it no whole number is near
  if (!std::isfinite(seconds)) return "?";
  const auto whole = static_cast<int64_t>(std::llround(std::clamp(seconds, -kMost, kMost)));
  const int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

namespace {

// Two digits, a point among them where the first is alone: 2.5, 12.
std::string two_digits(double number) { return fmt::format("{:.{}f}", number, number < 9.95 ? 1 : 0); }

}  // namespace

std::string rough_duration(double seconds) {
  constexpr double kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour, kYear = 365 * kDay, kMost = 1e6;
  if (!(seconds < kMost * kYear)) return "more than a million years";
  if (seconds < 0.0995) return fmt::format("{:.2g} ms", 1000 * seconds);
  if (seconds < 0.995) return fmt::format("{:.0f} ms", 10 * std::round(100 * seconds));
  if (seconds < 99.5) return two_digits(seconds) + " s";
  if (seconds < 59.5 * kMinute) return two_digits(seconds / kMinute) + " min";
  if (seconds < 2 * kDay) {
    const auto tens = static_cast<int64_t>(std::llround(seconds / (10 * kMinute)));
    return tens % 6 == 0 ? fmt::format("{} h", tens / 6) : fmt::format("{} h {} min", tens / 6, tens % 6 * 10);
  }
  if (seconds < 2 * kYear) return two_digits(seconds / kDay) + " days";
  return seconds < 10 * kYear ? two_digits(seconds / kYear) + " years"
                              : grouped(std::llround(seconds / kYear)) + " years";
}

std::string scientific(double number) {
  std::string text = fmt::format("{:.1e}", number);
  const size_t zero = text.find_first_of("+-") + 1;  // 3.0e-03: the exponent has at least two digits
  if (zero < text.size() && text[zero] == '0') text.erase(zero, 1);
  return text;
}

}  // namespace trainer
