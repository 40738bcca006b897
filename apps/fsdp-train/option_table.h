// Options that are read one by one, so that every wrong one is found: CLI11 alone stops at the first.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace trainer {

class OptionTable {
 public:
  OptionTable(CLI::App& app, std::vector<std::string>& problems) : app_(app), problems_(problems) {
    app_.allow_extras();  // to name all unknown arguments
  }

  // The options that follow are listed under `name` in the help.
  void group(const std::string& name) { group_ = name; }

  // `target` keeps its value unless the option is given. `shown_default` is for the help; empty: the target's value.
  template <typename Value>
  void add(const std::string& name, Value& target, const std::string& description, std::string shown_default = "") {
    if constexpr (!std::is_same_v<Value, std::optional<int64_t>>) {
      if (shown_default.empty()) shown_default = fmt::format("{}", target);
    }
    if (!shown_default.empty()) shown_default = fmt::format(" [{}]", shown_default);
    CLI::Option* option = app_.add_option(
        name, [](const CLI::results_t&) { return true; }, description + shown_default);
    option->group(group_)->take_last()->expected(0, 1)->type_name(type_name<Value>());
    rows_.push_back({option, [this, name, &target](const std::string& given) { convert(name, given, target); }});
  }

  void require(const std::string& name, const std::string& problem) { required_.emplace_back(name, problem); }

  // After the app has parsed: fills the targets and says what is wrong.
  void read() {
    for (const Row& row : rows_) {
      if (row.option->count() > 0) row.read(row.option->results().back());
    }
    for (const auto& [name, problem] : required_) {
      if (app_.count(name) == 0) problems_.push_back(problem);
    }
    bool after_unknown_option = false;
    for (const std::string& extra : app_.remaining()) {
      const bool is_option = extra.starts_with('-');
      // A word after an unknown option is its value: naming both would count one mistake twice.
      if (is_option || !after_unknown_option) {
        problems_.push_back(fmt::format("'{}' is no option of this program.", extra));
      }
      after_unknown_option = is_option;
    }
  }

 private:
  struct Row {
    CLI::Option* option;
    std::function<void(const std::string&)> read;
  };

  template <typename Value>
  static const char* type_name() {
    if constexpr (std::is_same_v<Value, std::string>) return "TEXT";
    return std::is_same_v<Value, double> ? "NUMBER" : "N";
  }

  template <typename Value>
  void convert(const std::string& name, const std::string& given, Value& target) {
    if (given == kNoValue || given.empty()) {
      problems_.push_back(fmt::format("{} needs a value.", name));
    } else if constexpr (std::is_same_v<Value, std::optional<int64_t>>) {
      convert(name, given, target.emplace());
    } else if constexpr (std::is_same_v<Value, std::string>) {
      target = given;
    } else {
      Value value{};
      if (CLI::detail::lexical_cast(given, value)) {
        target = value;
      } else {
        const char* kind = std::is_same_v<Value, double> ? "number" : "whole number";
        problems_.push_back(fmt::format("{}: '{}' is not a {}.", name, given, kind));
      }
    }
  }

  static constexpr const char* kNoValue = "{}";  // CLI11's sign for an option that was given none

  CLI::App& app_;
  std::vector<std::string>& problems_;
  std::string group_;
  std::vector<Row> rows_;
  std::vector<std::pair<std::string, std::string>> required_;
};

}  // namespace trainer
