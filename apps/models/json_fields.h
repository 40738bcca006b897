// The fields of a JSON object read one by one, so that everything wrong with them is found.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "files/json.h"

namespace models {

using fsdp::files::Json;

// True if a value is a whole number that an int64_t holds.
bool fits_in_64_bits(const Json& value);

// A key that is absent or null has no value. One with a value of another kind than asked for is a problem, and taken as
// absent. Refers to both arguments.
class JsonFields {
 public:
  JsonFields(const Json& object, std::vector<std::string>& problems, std::string path = "")
      : object_(object), problems_(problems), path_(std::move(path)) {}

  bool has(const std::string& key) const { return find(key) != nullptr; }
  const Json* find(const std::string& key) const;
  std::optional<int64_t> whole_number(const std::string& key);
  std::optional<double> number(const std::string& key);
  std::optional<bool> flag(const std::string& key);
  std::optional<std::string> word(const std::string& key);

  // A value that is none of `accepted` is a problem; so is none at all where there is no null among them.
  void accept(const std::string& key, std::initializer_list<Json> accepted);
  // A key that is none of `known` is a problem.
  void accept_keys(std::initializer_list<const char*> known);
  // "rope_parameters.factor is "x"; it must be a number."
  void report(const std::string& key, const std::string& expected);

 private:
  const Json& object_;
  std::vector<std::string>& problems_;
  std::string path_;  // before each key in messages: "rope_parameters."
};

}  // namespace models
