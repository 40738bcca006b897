// Values that an option takes, and some that it does not, made from its row.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "options/option_value.h"

namespace trainer {

template <typename Value>
struct Unwrapped {
  using Type = Value;
};
template <typename Value>
struct Unwrapped<std::optional<Value>> {
  using Type = Value;
};

// `visitor` with a value of the option's type, without its optional.
template <typename Visitor>
auto visit_type(const Row& row, Visitor visitor) {
  const AllOptions any{};
  return visit_target(row, any, [&](const auto& target) {
    return visitor(typename Unwrapped<std::decay_t<decltype(target)>>::Type{});
  });
}

inline Scalar good_number(const Row& row, int64_t) {
  const auto* allowed = std::get_if<WholeNumbers>(&row.check);
  return allowed ? std::min(allowed->lowest + 3, allowed->highest) : int64_t{3};
}
inline Scalar good_number(const Row&, double) { return 0.375; }

// One that is not the default.
inline Scalar good_value(const Row& row) {
  return visit_type(row, [&](auto type) -> Scalar {
    using Type = decltype(type);
    if constexpr (std::is_same_v<Type, bool>) return true;
    if constexpr (std::is_same_v<Type, int64_t> || std::is_same_v<Type, double>) return good_number(row, type);
    if constexpr (std::is_same_v<Type, StepRange>) return "3..5";
    if (const auto* words = std::get_if<Words>(&row.check)) return words->back();
    const auto* form = std::get_if<Form>(&row.check);
    if (form == nullptr) return "a \"word\" \\ and\n\tmore";
    for (const char* value : {"train:4096", "selective", "4*2,3,1"}) {
      if (form->holds(value)) return value;
    }
    return "2:4";
  });
}

// Of another type than the option's.
inline Scalar value_of_wrong_type(const Row& row) {
  return visit_type(row, [&](auto type) -> Scalar {
    using Type = decltype(type);
    if constexpr (std::is_same_v<Type, std::string> || std::is_same_v<Type, std::vector<std::string>>) return 1.5;
    return "many";
  });
}

// Of the option's type and out of its range; empty for an option that takes them all.
inline std::vector<Scalar> bad_values(const Row& row) {
  std::vector<Scalar> values;
  if (const auto* whole = std::get_if<WholeNumbers>(&row.check)) {
    values.push_back(whole->lowest - 1);
    if (whole->highest < INT64_MAX) values.push_back(whole->highest + 1);
  }
  if (const auto* numbers = std::get_if<Numbers>(&row.check)) {
    values = {std::nan(""), HUGE_VAL, -0.5};
    if (!numbers->with_lowest) values.emplace_back(numbers->lowest);
    if (!numbers->with_highest) values.emplace_back(numbers->highest);
    if (numbers->with_highest) values.emplace_back(numbers->highest + 0.5);
  }
  if (std::holds_alternative<Words>(row.check)) values.emplace_back("nonsense");
  if (std::holds_alternative<Form>(row.check)) values.emplace_back("train:many");
  return values;
}

}  // namespace trainer
