// The settings saved with a run, as configuration_file.cpp reads them.
#include <fmt/format.h>

#include <filesystem>

#include "options/configuration_file.h"
#include "options/option_paths.h"
#include "options/option_value.h"
#include "toml/guarded.h"

namespace trainer {

namespace {

std::string in_toml(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\u{:04X}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string in_toml(const Scalar& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return in_toml(*text);
  std::string number = shown(value);
  const bool looks_whole = number.find_first_of(".en") == std::string::npos;
  if (std::holds_alternative<double>(value) && looks_whole) number += ".0";
  return number;
}

bool is_toml(const std::string& line) try {
  static_cast<void>(guarded_toml::parse(line));
  return true;
} catch (const toml::parse_error&) {
  return false;
}

std::string line_of(const Row& row, const Scalar& value) {
  std::string line = fmt::format("{} = {}\n", row.key(), in_toml(value));
  if (is_toml(line)) return line;
  return fmt::format("# {}: not UTF-8, so it cannot be here; give {}\n", row.key(), row.flag);
}

bool follows_from_another(const Row& row, const RunOptions& options) {
  const bool is_limit = row.flag == std::string("--steps") && options.most_steps;
  if (is_limit) return false;
  for (const Rivals& rivals : rival_options()) {
    if (std::string(row.flag) == rivals.follower && value_of(*row_of(rivals.leader), options)) return true;
  }
  return false;
}

// Under a launcher the number of ranks is its choice.
bool is_chosen(const Row& row, const RunOptions& options) {
  const bool is_ranks = row.flag == std::string("--ranks");
  const bool says = options.chosen.flags.contains(row.flag) || (is_ranks && options.ranks != RunOptions().ranks);
  return says && !follows_from_another(row, options);
}

// Paths that were given as relative ones go with the folder of the run, unless that was named from elsewhere.
std::string path_to_save(const Row& row, const std::string& path, const RunOptions& options) {
  const Choices& chosen = options.chosen;
  if (row.flag == std::string("--run")) return ".";
  const bool run_moves_along = !chosen.flags.contains("--run") || chosen.relative.contains("--run");
  if (!run_moves_along || !chosen.relative.contains(row.flag)) return absolute_path(path);
  return path_seen_from(folder_of_file(std::filesystem::path(options.run) / "config.toml"), path);
}

std::optional<Scalar> value_to_save(const Row& row, const RunOptions& options) {
  const std::optional<Scalar> value = value_of(row, options);
  const auto* text = value ? std::get_if<std::string>(&*value) : nullptr;
  if (text == nullptr) return value;
  return with_paths(row, *text, [&](const std::string& path) { return path_to_save(row, path, options); });
}

}  // namespace

std::string configuration_toml(const RunOptions& resolved) {
  RunOptions options = resolved;
  options.steps = options.most_steps.value_or(options.steps);
  std::string text =
      "# The options that were chosen for a run. Those behind a # were not: they have their defaults, or followed "
      "from\n"
      "# others. To make the run again: fsdp-train --config THIS_FILE --run OTHER\n"
      "paths_relative_to = \"file\"\n";
  std::string section;
  for (const Row& row : option_rows()) {
    if (!row.in_file() || !row.is_for(Command::Train)) continue;
    const std::optional<Scalar> value = value_to_save(row, options);
    if (!value) continue;
    if (section != row.section) text += fmt::format("\n[{}]\n", row.section);
    section = row.section;
    text += (is_chosen(row, options) ? "" : "# ") + line_of(row, *value);
  }
  return text;
}

}  // namespace trainer
