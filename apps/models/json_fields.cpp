#include "models/json_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "files/printable.h"

namespace models {

namespace {

constexpr size_t kShownBytes = 200;  // of a value in a message

std::string shown(const std::string& text) {
  const std::string beginning = fsdp::files::printable(text.substr(0, kShownBytes));
  return text.size() <= kShownBytes ? beginning : beginning + "...";
}

// A JSON string of a file need not be UTF-8.
std::string shown(const Json& value) { return shown(value.dump(-1, ' ', false, Json::error_handler_t::replace)); }

}  // namespace

bool fits_in_64_bits(const Json& value) {
  constexpr auto kHighest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= kHighest);
}

const Json* JsonFields::find(const std::string& key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<int64_t> JsonFields::whole_number(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (fits_in_64_bits(*value)) return value->get<int64_t>();
  report(key, "it must be a whole number");
  return std::nullopt;
}

std::optional<double> JsonFields::number(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->get<double>();
  report(key, "it must be a number");
  return std::nullopt;
}

std::optional<bool> JsonFields::flag(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  report(key, "it must be true or false");
  return std::nullopt;
}

std::optional<std::string> JsonFields::word(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  report(key, "it must be a string");
  return std::nullopt;
}

void JsonFields::accept(const std::string& key, std::initializer_list<Json> accepted) {
  const Json* value = find(key);
  const Json found = value == nullptr ? Json(nullptr) : *value;
  if (std::find(accepted.begin(), accepted.end(), found) != accepted.end()) return;
  std::vector<std::string> words;
  for (const Json& each : accepted) words.push_back(each.is_null() ? "none" : shown(each));
  report(key, fmt::format("accepted: {}", fmt::join(words, ", ")));
}

void JsonFields::accept_keys(std::initializer_list<const char*> known) {
  for (const auto& item : object_.items()) {
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    problems_.push_back(
        fmt::format("{}{} is unknown; accepted: {}.", path_, shown(item.key()), fmt::join(known, ", ")));
  }
}

void JsonFields::report(const std::string& key, const std::string& expected) {
  const Json* value = find(key);
  problems_.push_back(
      fmt::format("{}{} is {}; {}.", path_, key, value == nullptr ? "missing" : shown(*value), expected));
}

}  // namespace models
