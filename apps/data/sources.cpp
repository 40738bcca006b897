#include "data/sources.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/error.h>

#include <algorithm>
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

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

// Parts without weights are a list where a file or a folder has the name of one.
bool is_list(const std::string& text) {
  std::error_code ignored;
  if (text.find(',') == std::string::npos || std::filesystem::exists(text, ignored)) return false;
  if (text.find(':') != std::string::npos) return true;
  return std::ranges::any_of(parts_of(text), [](const std::string& part) {
    std::error_code unknown;
    return !part.empty() && std::filesystem::exists(part, unknown);
  });
}

// "a.txt:1,b.txt:1": the list with a weight for each path that has none.
std::string with_weights(const std::string& text) {
  std::vector<std::string> parts = parts_of(text);
  std::erase(parts, "");
  for (std::string& part : parts) part += weight_in(part) ? "" : ":1";
  return fmt::format("{}", fmt::join(parts, ","));
}

Source source_in(const std::string& part, const std::string& all) {
  const std::optional<std::string> weight = weight_in(part);
  if (!weight) {
    throw fsdp::Error(fmt::format("data '{}': '{}' has no weight. Each of several paths needs one: {}", all, part,
                                  with_weights(all)));
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
  if (!is_list(text)) return {{.path = text}};
  std::vector<Source> sources;
  for (const std::string& part : parts_of(text)) sources.push_back(source_in(part, text));
  return sources;
}

std::string with_source_paths(const std::string& text,
                              const std::function<std::string(const std::string& path)>& replace) {
  if (!is_list(text)) return replace(text);
  std::string result;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::optional<std::string> weight = weight_in(part);
    const std::string end = weight ? ":" + *weight : "";
    result += (result.empty() ? "" : ",") + replace(part.substr(0, part.size() - end.size())) + end;
  }
  return result;
}

}  // namespace data
