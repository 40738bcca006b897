#include "planning/hardware_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/error.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <variant>

#include "options/did_you_mean.h"
#include "planning/hardware_keys.h"
#include "toml/guarded.h"

namespace trainer {

namespace {

using fsdp::plan::CpuShare;
using fsdp::plan::DeviceKind;
using fsdp::plan::Hardware;
using fsdp::plan::RatesBySize;

// Quotients of these are far from the ends of fp64.
constexpr double kLeast = 1e-21, kMost = 1e21;
constexpr int64_t kMostCount = 1 << 20;

// None: it is no finite number within the limit.
template <typename Node>
std::optional<double> number_of(const Node& node) {
  const auto number = node.template value<double>();
  if (!number || node.is_boolean() || (*number != 0 && !(*number >= kLeast && *number <= kMost))) return std::nullopt;
  return number;
}

// Two lists of equally many numbers above 0, which are not empty. The first has no number twice.
std::optional<RatesBySize> pairs_in(const toml::table& table, const char* first, const char* second) {
  const toml::array *keys = table[first].as_array(), *values = table[second].as_array();
  if (keys == nullptr || values == nullptr || keys->empty() || keys->size() != values->size()) return std::nullopt;
  RatesBySize pairs;
  for (size_t i = 0; i < keys->size(); ++i) {
    const double key = number_of((*keys)[i]).value_or(0), value = number_of((*values)[i]).value_or(0);
    if (key > 0 && value > 0) pairs[key] = value;
  }
  return pairs.size() == keys->size() ? std::optional(pairs) : std::nullopt;
}

std::string path_of(const HardwareKey& key) {
  return *key.section == '\0' ? key.name : fmt::format("{}.{}", key.section, key.name);
}

class HardwareReader {
 public:
  explicit HardwareReader(const toml::table& table) : table_(table) {}

  Hardware read() {
    hardware_.name = table_["name"].value_or(std::string());
    if (hardware_.name.empty()) problems_.emplace_back("name is missing; give the machine one, such as \"h100\".");
    read_kind();
    for (const HardwareKey& key : hardware_keys()) {
      if (key.is_of(hardware_.kind)) read_number(key);
    }
    for (const CollectiveKey& key : collective_keys()) read_collective(key);
    if (hardware_.has_cpus()) read_shares();
    check_names();
    return hardware_;
  }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void read_kind() {
    const std::string kind = table_["kind"].value_or(std::string(table_.contains("kind") ? "" : "gpu"));
    if (kind == "cpu") hardware_.kind = DeviceKind::Cpu;
    if (kind != "cpu" && kind != "gpu") problems_.emplace_back("kind has to be \"gpu\" or \"cpu\".");
  }

  void read_number(const HardwareKey& key) {
    const auto node = table_.at_path(path_of(key));
    if (!node) {
      if (!key.may_be_missing) problems_.push_back(fmt::format("{} is missing.", path_of(key)));
      return;
    }
    const std::optional<double> number = number_in(node, path_of(key), key.may_be_zero);
    if (!number) return;
    std::visit([&](auto field) { set(hardware_.*field, *number, path_of(key)); }, key.field);
  }

  template <typename Node>
  std::optional<double> number_in(const Node& node, const std::string& path, bool may_be_zero) {
    const std::optional<double> number = number_of(node);
    if (number && (*number > 0 || (may_be_zero && *number == 0))) return number;
    problems_.push_back(
        fmt::format("{} has to be a number from {} to {}{}.", path, kLeast, kMost, may_be_zero ? ", or 0" : ""));
    return std::nullopt;
  }

  void set(double& field, double number, const std::string&) { field = number; }
  void set(int64_t& field, double number, const std::string& path) {
    if (number == std::floor(number) && number <= kMostCount) {
      field = static_cast<int64_t>(number);
    } else {
      problems_.push_back(fmt::format("{} has to be a whole number, at most {}.", path, kMostCount));
    }
  }

  void read_collective(const CollectiveKey& key) {
    const toml::array* tables = table_[key.name].as_array();
    if (tables == nullptr && !table_.contains(key.name)) return;
    for (size_t i = 0; i < (tables == nullptr ? 1 : tables->size()); ++i) {
      const toml::table* entry = tables == nullptr ? nullptr : (*tables)[i].as_table();
      const int64_t ranks = entry == nullptr ? 0 : (*entry)["ranks"].value_or(int64_t{0});
      const std::optional<RatesBySize> seconds = entry == nullptr ? std::nullopt : pairs_in(*entry, "bytes", "seconds");
      if (ranks <= 1 || !seconds) {
        problems_.push_back(fmt::format(
            "{} has to name ranks (2 or more), and as many bytes as seconds, all from 1e-21 to 1e21.", key.name));
        return;
      }
      (hardware_.*key.field)[ranks] = *seconds;
    }
  }

  void read_shares() {
    const toml::array* tables = table_["share"].as_array();
    if (tables == nullptr || tables->empty()) {
      problems_.emplace_back("share is missing: a machine of kind \"cpu\" has at least one [[share]].");
      return;
    }
    for (const toml::node& node : *tables) {
      const toml::table* entry = node.as_table();
      if (entry == nullptr) {
        problems_.emplace_back("share has to be a list of tables.");
        return;
      }
      hardware_.shares.push_back(share_in(*entry));
    }
  }

  CpuShare share_in(const toml::table& entry) {
    CpuShare share;
    const std::string dtype = entry["dtype"].value_or(std::string());
    share.element = dtype == "bf16" ? 2 : 4;
    if (dtype != "fp32" && dtype != "bf16") problems_.emplace_back("share.dtype has to be \"fp32\" or \"bf16\".");
    for (const ShareKey& key : share_keys()) {
      const std::string path = fmt::format("share.{}", key.name);
      if (!entry.contains(key.name)) {
        problems_.push_back(fmt::format("{} is missing.", path));
        continue;
      }
      std::visit([&](auto field) { set_of_share(share.*field, entry[key.name], path); }, key.field);
    }
    std::vector<std::string> known = {"share.dtype"};
    for (const ShareKey& key : share_keys()) known.push_back(fmt::format("share.{}", key.name));
    for (const auto& [name, node] : entry) check_name(fmt::format("share.{}", name.str()), known);
    return share;
  }

  template <typename Number, typename Node>
  void set_of_share(Number& field, const Node& node, const std::string& path) {
    if (const std::optional<double> number = number_in(node, path, false)) set(field, *number, path);
  }
  template <typename Node>
  void set_of_share(RatesBySize& field, const Node& node, const std::string& path) {
    const toml::table* table = node.as_table();
    const std::optional<RatesBySize> rates = table == nullptr ? std::nullopt : pairs_in(*table, "sizes", "rates");
    if (rates) {
      field = *rates;
    } else {
      problems_.push_back(fmt::format("{} has to have as many sizes as rates, all above 0.", path));
    }
  }

  void check_names() {
    std::vector<std::string> known = {"name", "kind"};
    if (hardware_.has_cpus()) known.emplace_back("share");
    std::set<std::string> sections;
    for (const CollectiveKey& key : collective_keys()) known.emplace_back(key.name);
    for (const HardwareKey& key : hardware_keys()) {
      if (!key.is_of(hardware_.kind)) continue;
      known.push_back(path_of(key));
      if (*key.section != '\0') sections.insert(key.section);
    }
    for (const auto& [name, node] : table_) {
      const std::string key(name.str());
      if (!sections.contains(key)) {
        check_name(key, known);
      } else if (const toml::table* section = node.as_table()) {
        for (const auto& entry : *section) check_name(fmt::format("{}.{}", key, entry.first.str()), known);
      }
    }
  }

  void check_name(const std::string& name, const std::vector<std::string>& known) {
    if (std::ranges::find(known, name) != known.end()) return;
    problems_.push_back(with_hint(fmt::format("{} is no key of a machine", name), did_you_mean(name, known)));
  }

  const toml::table& table_;
  Hardware hardware_;
  std::vector<std::string> problems_;
};

Hardware hardware_in(const toml::table& table, const std::string& origin) {
  HardwareReader reader(table);
  Hardware hardware = reader.read();
  if (!reader.problems().empty()) throw fsdp::Error(fmt::format("{}: {}", origin, fmt::join(reader.problems(), " ")));
  return hardware;
}

}  // namespace

Hardware hardware_in(std::string_view toml, const std::string& origin) {
  try {
    return hardware_in(guarded_toml::parse(toml), origin);
  } catch (const toml::parse_error& error) {
    throw fsdp::Error(fmt::format("{}: line {}: {}", origin, error.source().begin.line, error.description()));
  }
}

std::vector<std::string> hardware_names() {
  std::vector<std::string> names;
  for (const std::string_view file : hardware_text()) names.emplace_back(file.substr(0, file.rfind(".toml")));
  return names;
}

Hardware hardware_of(const std::string& name_or_file) {
  const std::vector<std::string> names = hardware_names();
  if (std::ranges::find(names, name_or_file) != names.end())
    return hardware_in(hardware_text(name_or_file + ".toml"), fmt::format("hardware '{}'", name_or_file));
  const std::string origin = fmt::format("hardware '{}'", name_or_file);
  std::error_code ignored;
  if (!std::filesystem::exists(name_or_file, ignored))
    throw fsdp::Error(with_hint(fmt::format("{} is neither a file nor one of {}", origin, fmt::join(names, ", ")),
                                did_you_mean(name_or_file, names)));
  try {
    return hardware_in(guarded_toml::read(name_or_file, origin), origin);
  } catch (const toml::parse_error& error) {
    throw fsdp::Error(fmt::format("{}: line {}: {}", origin, error.source().begin.line, error.description()));
  }
}

}  // namespace trainer
