#include "manual/man_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/version.h>

#include <cctype>
#include <sstream>

#include "manual/roff.h"

namespace trainer {

namespace {

std::string page_header(const Program& program) {
  std::string title = program.name;
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const std::string name = roff_text(program.name);
  return fmt::format(
      ".\\\" Made by `{} man`.\n.TH {} 1 \"\" \"{} {}\" \"User Commands\"\n.ad l\n.nh\n.SH NAME\n{} \\- {}\n",
      program.name, roff_text(title), name, FSDP_VERSION_STRING, name, roff_text(program.summary));
}

std::string synopsis_word(const ProgramCommand& command) {
  switch (command.typing) {
    case CommandWord::NeverTyped:
      return "";
    case CommandWord::MayBeLeftOut:
      return fmt::format(" [{}]", roff_bold(command.word));
    case CommandWord::Typed:
      break;
  }
  return " " + roff_bold(command.word);
}

std::string synopsis(const Program& program) {
  const std::string name = roff_bold(program.name);
  std::string text = ".SH SYNOPSIS\n.nf\n";
  for (const ProgramCommand& command : program.commands) {
    for (const std::string& usage : command.usages) {
      text += name + synopsis_word(command) + (usage.empty() ? "" : " " + roff_text(usage)) + "\n";
    }
  }
  if (!program.help_word.empty()) text += fmt::format("{} {} {}\n", name, roff_bold("help"), roff_text("[COMMAND]"));
  return text + ".fi\n";
}

std::string list_of_page_commands(const Program& program) {
  std::string text;
  for (const ProgramCommand& command : program.commands) {
    if (command.typing != CommandWord::NeverTyped) text += roff_item(roff_bold(command.word), command.summary);
  }
  return text.empty() ? "" : ".SH COMMANDS\n" + text;
}

// "--ranks PROCESSES", and the commands that know it where they are not the default one alone.
std::string option_tag(const Program& program, const ProgramOption& option) {
  std::string tag = roff_bold(option.flag);
  if (!option.placeholder.empty()) tag += " " + roff_italic(option.placeholder);
  const bool is_default_alone = option.commands.size() == 1 && option.is_for(program.default_command());
  return is_default_alone ? tag : fmt::format("{}  ({})", tag, fmt::join(option.commands, ", "));
}

std::string page_options(const Program& program) {
  std::string text = ".SH OPTIONS\n" + roff_text(program.options_note) + "\n";
  std::string heading;
  for (const ProgramOption& option : program.options) {
    if (heading != option.heading) {
      heading = option.heading;
      text += fmt::format(".SS {}\n", roff_text(heading));
    }
    text += roff_item(option_tag(program, option), option.text);
  }
  text += ".SS Other\n" + roff_item(roff_bold("-h"), program.brief_help);
  return text + roff_item(roff_bold("--help"), program.full_help) +
         roff_item(roff_bold("--version"), "Shows the version.");
}

std::string page_examples(const Program& program) {
  std::string lines;
  for (const ProgramCommand& command : program.commands) {
    std::istringstream examples(command.examples);
    for (std::string line; std::getline(examples, line);) lines += line.substr(line.find_first_not_of(' ')) + "\n";
  }
  return ".SH EXAMPLES\n" + roff_lines(lines);
}

std::string page_section(const PageSection& section) {
  std::string text = fmt::format(".SH {}\n", section.title);
  for (const PageItem& item : section.items) text += roff_item(roff_bold(item.name), item.meaning);
  return text;
}

}  // namespace

std::string man_page(const Program& program) {
  std::string text = page_header(program) + synopsis(program);
  text += ".SH DESCRIPTION\n" + roff_text(program.description) + "\n";
  text += list_of_page_commands(program) + page_options(program) + page_examples(program);
  for (const PageSection& section : program.sections) text += page_section(section);
  return text;
}

}  // namespace trainer
