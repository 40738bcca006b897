#include "options/configuration_file.h"

#include <fmt/format.h>

#include <fsdp/error.h>

#include <algorithm>
#include <tuple>

#include "options/did_you_mean.h"
#include "options/option_paths.h"
#include "options/option_value.h"
#include "toml/guarded.h"

namespace trainer {

namespace {

constexpr const char *kPathsKey = "paths_relative_to", *kFileWord = "file", *kWorkingFolderWord = "working-folder";

class Reader {
 public:
  Reader(const std::string& path, AllOptions& options, ConfigurationFile& file)
      : path_(path), options_(options), file_(file) {}

  void read() {
    file_.paths = absolute_path(".");
    try {
      const toml::table root = guarded_toml::read(path_, fmt::format("configuration '{}'", path_));
      if (const toml::node* node = root.get(kPathsKey)) read_paths_key(*node);
      for (const auto& [key, node] : root) {
        if (key.str() != kPathsKey) read_section(key, node);
      }
    } catch (const fsdp::Error& error) {
      file_.problems.emplace_back(error.what());
    } catch (const toml::parse_error& error) {
      add(error.source().begin, fmt::format("{}.", error.description()));
    }
    std::sort(found_.begin(), found_.end(), [](const Found& a, const Found& b) {
      return std::tie(a.position.line, a.position.column) < std::tie(b.position.line, b.position.column);
    });
    for (const Found& found : found_) file_.problems.push_back(found.problem);
  }

 private:
  struct Found {
    toml::source_position position;
    std::string problem;
  };

  void add(const toml::source_position& at, const std::string& problem) {
    found_.push_back({at, fmt::format("{}:{}:{}: {}", path_, at.line, at.column, problem)});
  }

  // Before all others: it says what they mean.
  void read_paths_key(const toml::node& node) {
    const std::string word = node.value_or(std::string());
    is_from_file_ = word == kFileWord;
    if (is_from_file_) file_.paths = folder_of_file(path_).string();
    if (is_from_file_ || word == kWorkingFolderWord) return;
    add(node.source().begin, fmt::format("{} must be \"{}\" or \"{}\".", kPathsKey, kFileWord, kWorkingFolderWord));
  }

  void read_section(const toml::key& key, const toml::node& node) {
    const std::string name(key.str());
    const toml::table* table = node.as_table();
    if (!table) {
      return add(key.source().begin,
                 with_hint(fmt::format("'{}' stands outside of every section", name),
                           elsewhere(name).empty() ? did_you_mean(name, {kPathsKey}) : elsewhere(name)));
    }
    std::vector<std::string> sections;
    for (const Row& row : option_rows()) {
      if (row.in_file()) sections.push_back(row.section);
    }
    if (std::find(sections.begin(), sections.end(), name) == sections.end()) {
      const std::string meant = did_you_mean(name, sections);
      return add(key.source().begin, with_hint(fmt::format("[{}] is no section of this program", name),
                                               meant.empty() ? "" : fmt::format("[{}]", meant)));
    }
    for (const auto& [inner, value] : *table) read_value(name, inner, value);
  }

  void read_value(const std::string& section, const toml::key& key, const toml::node& node) {
    const std::string name(key.str());
    std::vector<std::string> here;
    for (const Row& row : option_rows()) {
      if (!row.in_file() || section != row.section) continue;
      if (row.key() == name) return set(row, node);
      here.push_back(row.key());
    }
    const std::string meant = elsewhere(name).empty() ? did_you_mean(name, here) : elsewhere(name);
    add(key.source().begin, with_hint(fmt::format("'{}' is no key of [{}]", name, section), meant));
  }

  // Where that key is, if it is in any section.
  static std::string elsewhere(const std::string& name) {
    for (const Row& row : option_rows()) {
      if (row.in_file() && row.key() == name) return fmt::format("[{}] {}", row.section, name);
    }
    return "";
  }

  void set(const Row& row, const toml::node& node) {
    file_.given.insert(&row);
    Scalar value;
    if (const auto* text = node.as_string()) {
      value = with_paths_from_here(row, text->get());
    } else if (const auto* whole = node.as_integer()) {
      value = whole->get();
    } else if (const auto* number = node.as_floating_point()) {
      value = number->get();
    } else if (const auto* truth = node.as_boolean()) {
      value = truth->get();
    } else {
      return add(node.source().begin,
                 fmt::format("{} is a list, a table or a time; it must be one value.", row.path()));
    }
    const std::string problem = assign(row, options_, value);
    if (!problem.empty()) add(node.source().begin, row.path() + problem);
  }

  std::string with_paths_from_here(const Row& row, const std::string& text) {
    if (!names_relative_path(row, text)) return text;
    file_.relative.insert(&row);
    if (!is_from_file_) return text;
    return with_paths(row, text, [&](const std::string& path) { return path_from(file_.paths, path); });
  }

  std::string path_;
  bool is_from_file_ = false;
  AllOptions& options_;
  ConfigurationFile& file_;
  std::vector<Found> found_;
};

}  // namespace

ConfigurationFile read_configuration(const std::string& path, AllOptions& options) {
  ConfigurationFile result;
  Reader(path, options, result).read();
  return result;
}

}  // namespace trainer
