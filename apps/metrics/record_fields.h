// Fields of records that a stranger may have made: one of another type than it should have leaves the value as it is.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace trainer {

inline void read_field(const nlohmann::ordered_json& record, const char* name, std::string& value) {
  const auto found = record.find(name);
  if (found != record.end() && found->is_string()) value = found->get<std::string>();
}

inline void read_field(const nlohmann::ordered_json& record, const char* name, bool& value) {
  const auto found = record.find(name);
  if (found != record.end() && found->is_boolean()) value = found->get<bool>();
}

// A double may be beyond what a whole number holds, and its conversion undefined.
inline void read_field(const nlohmann::ordered_json& record, const char* name, int64_t& value) {
  const auto found = record.find(name);
  if (found != record.end() && found->is_number_integer()) value = found->get<int64_t>();
}

inline void read_field(const nlohmann::ordered_json& record, const char* name, double& value) {
  const auto found = record.find(name);
  if (found != record.end() && found->is_number()) value = found->get<double>();
}

inline void read_field(const nlohmann::ordered_json& record, const char* name, std::vector<std::string>& value) {
  const auto found = record.find(name);
  if (found == record.end() || !found->is_array()) return;
  for (const auto& item : *found) {
    if (item.is_string()) value.push_back(item.get<std::string>());
  }
}

}  // namespace trainer
