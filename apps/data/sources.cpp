#include "data/sources.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <sstream>

namespace data {

namespace {

// The text behind the last colon, if it may be a weight, which has no slash.
std::optional<std::string> weight_in(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || text.find('/', colon) != std::string::npos) return std::nullopt;
  return text.substr(colon + 1);
}

Source source_in(const std::string& part, const std::string& all) {
  const std::optional<std::string> weight = weight_in(part);
  if (!weight) {
    throw fsdp::Error(fmt::format(
        "data '{}': '{}' has no weight. Each of several paths needs one, as in a.txt:3,b.txt:1.", all, part));
  }
  Source source{.path = part.substr(0, part.size() - weight->size() - 1)};
  const auto [rest, error] = std::from_chars(weight->data(), weight->data() + weight->size(), source.weight);
  const bool is_number = error == std::errc() && rest == weight->data() + weight->size();
  if (!is_number || !std::isfinite(source.weight) || source.weight <= 0) {
    throw fsdp::Error(
        fmt::format("data '{}': the weight of '{}' is '{}'; it must be a number above 0.", all, source.path, *weight));
  }
  return source;
}

}  // namespace

std::vector<Source> sources_in(const std::string& text) {
  std::error_code ignored;
  const bool is_list = text.find(',') != std::string::npos && text.find(':') != std::string::npos;
  if (!is_list || std::filesystem::exists(text, ignored)) return {{.path = text}};
  std::vector<Source> sources;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) sources.push_back(source_in(part, text));
  return sources;
}

}  // namespace data
