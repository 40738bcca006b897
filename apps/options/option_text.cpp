#include "options/option_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <type_traits>

#include "options/option_value.h"

namespace trainer {

std::string placeholder(const Row& row) {
  if (row.takes_words()) return "";
  return std::visit(
      [&](auto target) -> std::string {
        using Member = decltype(target);
        if constexpr (std::is_same_v<Member, bool AllOptions::*>) return "";
        if constexpr (std::is_same_v<Member, std::optional<bool> ModelOptions::*>) return "true|false";
        if constexpr (std::is_same_v<Member, std::optional<StepRange> AllOptions::*>) return "A..B";
        return row.unit;
      },
      row.target);
}

std::string described(const Row& row) {
  std::string text = row.description;
  if (const auto* allowed = std::get_if<Words>(&row.check)) {
    text += fmt::format(" One of {}.", fmt::join(*allowed, ", "));
  }
  if (row.is_switch()) return text;
  const AllOptions defaults{};
  const std::optional<Scalar> value = value_of(row, defaults);
  const std::string shown_default = *row.shown_default != '\0' || !value ? row.shown_default : shown(*value);
  return shown_default.empty() ? text : fmt::format("{} [{}]", text, shown_default);
}

}  // namespace trainer
