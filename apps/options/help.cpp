#include "options/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "options/option_value.h"

namespace trainer {

namespace {

// `text` in lines that begin below each other, to the right of `left`.
std::string paragraph(const std::string& left, const std::string& text, int width) {
  constexpr size_t kIndent = 28;
  std::string result, line = fmt::format("  {}", left);
  auto end_line = [&] {
    result += line + "\n";
    line.clear();
  };
  if (line.size() + 2 > kIndent) end_line();
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (line.size() > kIndent && line.size() + 1 + word.size() > static_cast<size_t>(width)) end_line();
    if (line.size() > kIndent) {
      line += ' ';
    } else {
      line.resize(kIndent, ' ');
    }
    line += word;
  }
  return result + line + "\n";
}

// The placeholder of the value.
std::string placeholder(const Row& row) {
  struct Name {
    const Row& row;
    std::string operator()(bool Options::*) const { return ""; }
    std::string operator()(int64_t Options::*) const { return " N"; }
    std::string operator()(std::optional<int64_t> Options::*) const { return " N"; }
    std::string operator()(std::optional<int64_t> ModelOptions::*) const { return " N"; }
    std::string operator()(double Options::*) const { return " X"; }
    std::string operator()(std::optional<double> Options::*) const { return " X"; }
    std::string operator()(std::optional<double> ModelOptions::*) const { return " X"; }
    std::string operator()(std::optional<bool> ModelOptions::*) const { return " true|false"; }
    std::string operator()(std::optional<StepRange> Options::*) const { return " A..B"; }
    std::string operator()(std::string Options::*) const { return fmt::format(" {}", row.unit); }
    std::string operator()(std::string ModelOptions::*) const { return fmt::format(" {}", row.unit); }
    std::string operator()(std::vector<std::string> Options::*) const { return "..."; }
  };
  return std::visit(Name{row}, row.target);
}

bool is_number(const Row& row) {
  const std::string name = placeholder(row);
  return name == " N" || name == " X";
}

std::string described(const Row& row) {
  std::string text = row.description;
  if (is_number(row) && *row.unit != '\0') text = fmt::format("{} {}", row.unit, text);
  if (const auto* allowed = std::get_if<Words>(&row.check)) {
    text += fmt::format(": {}", fmt::join(*allowed, ", "));
  }
  if (row.is_switch()) return text;
  const Options defaults{};
  const std::optional<Scalar> value = value_of(row, defaults);
  const std::string shown_default = *row.shown_default != '\0' || !value ? row.shown_default : shown(*value);
  return shown_default.empty() ? text : fmt::format("{} [{}]", text, shown_default);
}

std::string list_of_commands(int width) {
  std::string text = "Commands\n";
  for (const CommandEntry& entry : kCommands) text += paragraph(entry.word, entry.summary, width);
  return text + "`fsdp-train COMMAND --help` lists the options of each.\n\n";
}

}  // namespace

std::string help_text(Command command, bool all_commands, int width) {
  const CommandEntry& entry = entry_of(command);
  std::string text = fmt::format("fsdp-train {} {}\n{}.\n\n", entry.word, entry.usage, entry.summary);
  if (all_commands) {
    text = fmt::format(
        "fsdp-train: trains language models, sharded over the ranks of a job.\n"
        "The loss is the same to the last digit for any ranks x micro-batches of the same product.\n\n{}{}",
        list_of_commands(width), text);
  }
  std::string title;
  for (const Row& row : option_rows()) {
    if (!row.is_for(command)) continue;
    if (title != row.title) {
      title = row.title;
      text += title;
      if (row.in_file()) text += fmt::format(" [{}]", row.section);
      text += "\n";
    }
    text += paragraph(fmt::format("{}{}", row.flag, placeholder(row)), described(row), width);
  }
  text += "\nOther\n";
  text += paragraph("-h, --help", "show this", width);
  return text + paragraph("--version", "show the version", width);
}

}  // namespace trainer
