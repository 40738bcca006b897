#include "optim/settings.h"

#include <array>
#include <cmath>

#include "base/error.h"

namespace fsdp::optim {

namespace {

struct Number {
  const char* name;
  std::optional<double> ParameterGroup::*in;
  bool (*valid)(double);
  const char* expected;
};

bool not_negative(double value) { return value >= 0 && std::isfinite(value); }
bool below_one(double value) { return value >= 0 && value < 1; }
bool up_to_one(double value) { return value >= 0 && value <= 1; }

constexpr std::array kNumbers = {
    Number{"lr", &ParameterGroup::lr, not_negative, "0 or more"},
    Number{"beta1", &ParameterGroup::beta1, below_one, "0 or more and less than 1"},
    Number{"beta2", &ParameterGroup::beta2, below_one, "0 or more and less than 1"},
    Number{"eps", &ParameterGroup::eps, not_negative, "0 or more"},
    Number{"weight_decay", &ParameterGroup::weight_decay, not_negative, "0 or more"},
    Number{"momentum", &ParameterGroup::momentum, below_one, "0 or more and less than 1"},
    Number{"dampening", &ParameterGroup::dampening, up_to_one, "0 to 1"},
};

std::vector<std::string> known_to(const Settings& defaults) {
  std::vector<std::string> names;
  for (const Number& number : kNumbers) {
    if (defaults.*number.in) names.emplace_back(number.name);
  }
  return names;
}

void check_ranges(const std::string& optimizer, const ParameterGroup& group) {
  for (const Number& number : kNumbers) {
    const std::optional<double> found = group.*number.in;
    FSDP_CHECK(!found || number.valid(*found), "{}: found {} {}, expected {}", optimizer, number.name, *found,
               number.expected);
  }
}

}  // namespace

Settings resolve(const Settings& defaults, const ParameterGroup& group) {
  Settings settings = defaults;
  for (const Number& number : kNumbers) {
    if (group.*number.in) settings.*number.in = group.*number.in;
  }
  return settings;
}

void check_settings(const std::string& optimizer, const Settings& defaults, const std::vector<ParameterGroup>& groups) {
  check_ranges(optimizer, defaults);
  for (const ParameterGroup& group : groups) {
    for (const Number& number : kNumbers) {
      FSDP_CHECK(!(group.*number.in) || defaults.*number.in,
                 "{}: the group of '{}' sets {}, which {} does not have. It has: {}.", optimizer,
                 fmt::join(group.patterns, "', '"), number.name, optimizer, fmt::join(known_to(defaults), ", "));
    }
    check_ranges(optimizer, group);
  }
}

}  // namespace fsdp::optim
