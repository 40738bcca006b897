#include "options/numbers.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace trainer {

namespace {

struct Typed {
  std::string digits;  // without what is for people
  int64_t scale = 1;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int64_t scale_of(char suffix) {
  switch (suffix) {
    case 'k':
    case 'K':
      return 1'000;
    case 'M':
      return 1'000'000;
    case 'G':
    case 'B':
      return 1'000'000'000;
    case 'T':
      return 1'000'000'000'000;
    default:
      return 1;
  }
}

std::optional<Typed> taken_apart(const std::string& text) {
  Typed typed;
  const size_t begin = text.starts_with('+') ? 1 : 0;
  size_t end = text.size();
  if (end > begin && scale_of(text[end - 1]) > 1) typed.scale = scale_of(text[--end]);
  for (size_t i = begin; i < end; ++i) {
    if (text[i] != '_') {
      typed.digits += text[i];
    } else if (i == begin || i + 1 == end || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) {
      return std::nullopt;
    }
  }
  if (typed.scale > 1 && (typed.digits.empty() || !(is_digit(typed.digits.back()) || typed.digits.back() == '.'))) {
    return std::nullopt;  // infk
  }
  return typed;
}

// All of the digits as a number.
template <typename Number>
std::optional<Number> parsed(const std::string& digits) {
  Number number{};
  const char* end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, number);
  const bool is_one = stopped == end && error == std::errc{};
  return is_one ? std::optional(number) : std::nullopt;
}

std::optional<int64_t> product(int64_t number, int64_t scale) {
  int64_t result = 0;
  return __builtin_mul_overflow(number, scale, &result) ? std::nullopt : std::optional(result);
}

// Returns whether the digits are a number, also one beyond the range of fp64.
bool is_written_as_number(const std::string& digits) {
  double ignored = 0;
  const char* end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, ignored);
  return stopped == end && error != std::errc::invalid_argument;
}

}  // namespace

std::optional<int64_t> whole_number_in(const std::string& text) {
  const auto typed = taken_apart(text);
  if (!typed) return std::nullopt;
  if (const auto number = parsed<int64_t>(typed->digits)) return product(*number, typed->scale);
  const double number = parsed<double>(typed->digits).value_or(0.5) * static_cast<double>(typed->scale);
  if (!(std::abs(number) <= kExactWhole) || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::optional<double> number_in(const std::string& text) {
  const auto typed = taken_apart(text);
  const auto number = typed ? parsed<double>(typed->digits) : std::nullopt;
  return number ? std::optional(*number * static_cast<double>(typed->scale)) : std::nullopt;
}

std::optional<double> rough_number_in(const std::string& text) {
  const auto typed = taken_apart(text);
  if (!typed || !is_written_as_number(typed->digits)) return std::nullopt;
  return std::strtod(typed->digits.c_str(), nullptr) * static_cast<double>(typed->scale);
}

std::optional<double> bytes_in(const std::string& text) {
  constexpr std::string_view kBinary = "KMGT";
  if (!text.ends_with('B')) return number_in(text);
  const std::string number = text.substr(0, text.size() - 1);
  const size_t power = number.size() > 1 && number.ends_with('i') ? kBinary.find(number[number.size() - 2]) : text.npos;
  if (power == text.npos) return number.ends_with('B') ? std::nullopt : number_in(number);
  const std::optional<double> count = number_in(number.substr(0, number.size() - 2));
  return count ? std::optional(std::ldexp(*count, 10 * (static_cast<int>(power) + 1))) : std::nullopt;
}

}  // namespace trainer
