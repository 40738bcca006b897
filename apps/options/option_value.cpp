#include "options/option_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <type_traits>

#include "options/numbers.h"
#include "options/option_paths.h"
#include "options/synonyms.h"

namespace trainer {

namespace {

std::optional<StepRange> range_in(const std::string& text) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return std::nullopt;
  const auto first = whole_number_in(text.substr(0, dots)), last = whole_number_in(text.substr(dots + 2));
  if (!first || !last || *first < 1 || *last < *first) return std::nullopt;
  return StepRange{*first, *last};
}

std::string quoted(const Scalar& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text ? fmt::format("'{}'", *text) : shown(value);
}

std::string problem_with(const Check& check, int64_t value) {
  const auto* allowed = std::get_if<WholeNumbers>(&check);
  if (allowed && value < allowed->lowest) return fmt::format(" is {}; it must be at least {}.", value, allowed->lowest);
  if (allowed && value > allowed->highest)
    return fmt::format(" is {}; it must be at most {}.", value, allowed->highest);
  return "";
}

std::string problem_with(const Check& check, double value) {
  const auto* allowed = std::get_if<Numbers>(&check);
  if (!allowed) return "";
  const bool above = allowed->with_lowest ? value >= allowed->lowest : value > allowed->lowest;
  const bool below = allowed->with_highest ? value <= allowed->highest : value < allowed->highest;
  if (std::isfinite(value) && above && below) return "";
  return fmt::format(" is {}; it must be {}.", value, allowed->expected);
}

std::string problem_with(const Check& check, const std::string& value) {
  if (const auto* allowed = std::get_if<Words>(&check)) {
    if (std::find(allowed->begin(), allowed->end(), value) != allowed->end()) return "";
    const std::string meant = value_meant(value, *allowed);
    return fmt::format(" is '{}'; {}it must be one of {}.", value,
                       meant.empty() ? "" : fmt::format("did you mean {}? If not, ", meant), fmt::join(*allowed, ", "));
  }
  const auto* form = std::get_if<Form>(&check);
  if (!form || form->holds(value)) return "";
  return fmt::format(" is '{}'; it must be {}.", value, form->expected);
}

std::string put(const Scalar& given, const Check&, bool& target) {
  const auto* value = std::get_if<bool>(&given);
  if (!value) return fmt::format(": {} is neither true nor false.", quoted(given));
  target = *value;
  return "";
}

// For a whole number that int64 does not hold, or that is written in another form.
std::string problem_with_whole(const Check& check, double value, const std::string& written) {
  const auto* allowed = std::get_if<WholeNumbers>(&check);
  const int64_t lowest = allowed ? allowed->lowest : std::numeric_limits<int64_t>::min();
  const int64_t highest = allowed ? allowed->highest : std::numeric_limits<int64_t>::max();
  if (value < static_cast<double>(lowest)) return fmt::format(" is {}; it must be at least {}.", written, lowest);
  if (value >= static_cast<double>(highest)) return fmt::format(" is {}; it must be at most {}.", written, highest);
  return fmt::format(" is {}, which is not exact above 2^53. Write all its digits.", written);
}

// A number with a point, or an exponent, in a file.
std::string problem_with_point(const Check& check, double value) {
  std::string written = shown(value);
  if (written.find_first_of(".en") == std::string::npos) written += ".0";
  if (!(value == std::floor(value))) return fmt::format(": {} is not a whole number.", written);
  if (std::abs(value) > kExactWhole) return problem_with_whole(check, value, written);
  const auto whole = static_cast<int64_t>(value);
  const std::string problem = problem_with(check, whole);
  return problem.empty() ? fmt::format(" is {}; it must be a whole number without a point: {}.", written, whole)
                         : problem;
}

std::string put(const Scalar& given, const Check& check, int64_t& target) {
  if (const auto* number = std::get_if<double>(&given)) return problem_with_point(check, *number);
  if (const auto* text = std::get_if<std::string>(&given)) {
    const double rough = rough_number_in(*text).value_or(0);
    if (std::abs(rough) > kExactWhole) return problem_with_whole(check, rough, *text);
  }
  const auto* value = std::get_if<int64_t>(&given);
  if (!value) return fmt::format(": {} is not a whole number.", quoted(given));
  std::string problem = problem_with(check, *value);
  if (problem.empty()) target = *value;
  return problem;
}

std::string put(const Scalar& given, const Check& check, double& target) {
  const auto* whole = std::get_if<int64_t>(&given);
  const auto* number = std::get_if<double>(&given);
  const auto* text = std::get_if<std::string>(&given);
  if (text && !number_in(*text) && rough_number_in(*text))
    return fmt::format(" is {}, which is beyond the range of fp64.", *text);
  if (!whole && !number) return fmt::format(": {} is not a number.", quoted(given));
  const double value = number ? *number : static_cast<double>(*whole);
  std::string problem = problem_with(check, value);
  if (problem.empty()) target = value;
  return problem;
}

std::string put(const Scalar& given, const Check& check, std::string& target) {
  const auto* value = std::get_if<std::string>(&given);
  if (!value) return fmt::format(": {} is not a text; put it in quotes.", quoted(given));
  const auto* anything = std::get_if<Anything>(&check);
  if (value->empty() && (anything == nullptr || !anything->may_be_empty)) return " needs a value.";
  std::string problem = problem_with(check, *value);
  if (problem.empty()) target = *value;
  return problem;
}

std::string put(const Scalar& given, const Check&, StepRange& target) {
  const auto* text = std::get_if<std::string>(&given);
  const auto range = text ? range_in(*text) : std::nullopt;
  if (!range) return fmt::format(": {} is no range of steps such as 100..110.", quoted(given));
  target = *range;
  return "";
}

std::string put(const Scalar& given, const Check& check, std::vector<std::string>& target) {
  std::string word;
  std::string problem = put(given, check, word);
  if (problem.empty()) target.push_back(word);
  return problem;
}

template <typename Value>
std::string put(const Scalar& given, const Check& check, std::optional<Value>& target) {
  Value value{};
  std::string problem = put(given, check, value);
  if (problem.empty()) target = value;
  return problem;
}

template <typename Value>
struct Inner {
  using Type = Value;
};
template <typename Value>
struct Inner<std::optional<Value>> {
  using Type = Value;
};

std::optional<Scalar> get(bool value) { return value; }
std::optional<Scalar> get(int64_t value) { return value; }
std::optional<Scalar> get(double value) { return value; }
std::optional<Scalar> get(const std::string& value) {
  if (value.empty()) return std::nullopt;
  return value;
}
std::optional<Scalar> get(const StepRange& value) { return fmt::format("{}..{}", value.first, value.last); }
std::optional<Scalar> get(const std::vector<std::string>& value) {
  return get(fmt::format("{}", fmt::join(value, " ")));
}
template <typename Value>
std::optional<Scalar> get(const std::optional<Value>& value) {
  if (!value) return std::nullopt;
  return get(*value);
}

}  // namespace

Scalar scalar_of(const Row& row, const std::string& text) {
  const AllOptions any{};  // the type alone is of interest
  return visit_target(row, any, [&](const auto& target) -> Scalar {
    using Value = typename Inner<std::decay_t<decltype(target)>>::Type;
    if constexpr (std::is_same_v<Value, bool>) {
      if (text == "true" || text == "false") return text == "true";
    } else if constexpr (std::is_same_v<Value, int64_t>) {
      if (const auto number = whole_number_in(text)) return *number;
    } else if constexpr (std::is_same_v<Value, double>) {
      const bool counts_bytes = std::string_view(row.unit) == "BYTES";
      if (const auto number = counts_bytes ? bytes_in(text) : number_in(text)) return *number;
    }
    return text;
  });
}

std::string assign(const Row& row, AllOptions& options, const Scalar& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (const std::string problem = problem_of_lengths(row, *text); !problem.empty()) return problem;
  }
  return visit_target(row, options, [&](auto& target) { return put(value, row.check, target); });
}

std::optional<Scalar> value_of(const Row& row, const AllOptions& options) {
  return visit_target(row, options, [](const auto& target) { return get(target); });
}

std::optional<Scalar> value_of(const Row& row, const RunOptions& options) {
  AllOptions all;
  static_cast<RunOptions&>(all) = options;
  return value_of(row, all);
}

void reset(const Row& row, AllOptions& options) {
  const AllOptions fresh{};
  std::visit([&](auto target) { reach::member(options, target) = reach::member(fresh, target); }, row.target);
}

std::string shown(const Scalar& value) {
  return std::visit([](const auto& one) { return fmt::format("{}", one); }, value);
}

}  // namespace trainer
