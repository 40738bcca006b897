#include "report/text.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "files/printable.h"

namespace trainer {

namespace {

template <typename Replacement>
std::string with_replaced(std::string_view text, Replacement replacement) {
  std::string result;
  for (const char character : text) {
    const char* instead = replacement(character);
    if (instead == nullptr) {
      result += character;
    } else {
      result += instead;
    }
  }
  return result;
}

}  // namespace

std::string html(std::string_view text) {
  return with_replaced(fsdp::files::printable_lines(text), [](char character) -> const char* {
    switch (character) {
      case '&':
        return "&amp;";
      case '<':
        return "&lt;";
      case '>':
        return "&gt;";
      case '"':
        return "&quot;";
      case '\'':
        return "&#39;";
      default:
        return nullptr;
    }
  });
}

std::string json_string(std::string_view text) {
  return with_replaced(nlohmann::json(fsdp::files::printable_lines(text)).dump(), [](char character) -> const char* {
    switch (character) {
      case '&':
        return "\\u0026";
      case '<':
        return "\\u003c";
      case '>':
        return "\\u003e";
      default:
        return nullptr;
    }
  });
}

std::string json_number(double number) { return std::isfinite(number) ? fmt::format("{:.7g}", number) : "null"; }

}  // namespace trainer
