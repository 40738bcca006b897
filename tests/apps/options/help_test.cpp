#include "options/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <sstream>

#include "options/command_line.h"
#include "options/option_table.h"

namespace trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

bool lists(const std::string& help, const Row& row) {
  const std::string begins = std::string("\n  ") + row.flag;
  return help.find(begins + " ") != std::string::npos || help.find(begins + "...") != std::string::npos;
}

TEST(Help, HasEveryOptionOfACommandAndNoOther) {
  for (const CommandEntry& entry : kCommands) {
    const std::string help = help_text(entry.command);
    for (const Row& row : option_rows()) {
      EXPECT_EQ(lists(help, row), row.is_for(entry.command)) << entry.word << " " << row.flag;
    }
    for (const char* part : {entry.summary, entry.examples, entry.usage}) EXPECT_THAT(help, HasSubstr(part));
  }
}

TEST(Help, GroupsOptionsWithTheirUnitsAndDefaults) {
  const std::string help = help_text(Command::Train, {.width = 200});
  for (const char* part : {"\nData [data]\n", "\nModel [model]\n", "\nRanks [ranks]\n", "\nSharding [sharding]\n",
                           "\nTraining [training]\n", "\nLearning rate [training]\n", "\nSamples [samples]\n",
                           "  --micro-batches N ", "[full-shard]", "One of full-shard, shard-grad-op",
                           "  --steps STEPS ", "[1000, or 300 with --model, --init-from or --lora]",
                           "[0.512 / width, at most 0.004; 0.001 with --model, --init-from or --lora]",
                           "Seconds that a rank waits for another before the job ends. [600]", "--trace-steps A..B",
                           "--dry-run ", "--tie-embeddings true|false"}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
}

TEST(Help, IsMadeOfSentences) {
  const auto is_sentence = [](const std::string& text) {
    return std::isupper(static_cast<unsigned char>(text[0])) != 0 && text.ends_with('.') &&
           !text.starts_with("What ") && !text.starts_with("The same ") &&
           text.find("a rank and") == std::string::npos && text.find("  ") == std::string::npos;
  };
  for (const Row& row : option_rows()) {
    EXPECT_TRUE(is_sentence(row.description)) << row.flag << ": " << row.description;
    const bool has_value = !row.is_switch() && !row.takes_words();
    const bool is_named_by_type = std::holds_alternative<std::optional<bool> ModelOptions::*>(row.target) ||
                                  std::holds_alternative<std::optional<StepRange> AllOptions::*>(row.target);
    if (has_value && !is_named_by_type) {
      EXPECT_STRNE(row.unit, "") << row.flag;
    }
  }
  for (const CommandEntry& entry : kCommands) EXPECT_TRUE(is_sentence(entry.summary)) << entry.summary;
}

TEST(Help, KeepsToItsWidth) {
  for (const CommandEntry& entry : kCommands) {
    std::istringstream lines(help_text(entry.command));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  }
  for (int width : {60, 80, 100}) {
    for (const HelpLength length : {HelpLength::Short, HelpLength::Full}) {
      std::istringstream lines(help_text(Command::Train, {.all_commands = true, .length = length, .width = width}));
      for (std::string line; std::getline(lines, line);) {
        const bool is_example = line.starts_with("  fsdp-train ");
        const bool breakable = line.starts_with("  ") && line.find(' ', 27) != std::string::npos;
        if (breakable && !is_example) {
          EXPECT_LE(line.size(), static_cast<size_t>(width)) << line;
        }
        EXPECT_LE(line.size(), 80u + (width > 80 ? static_cast<size_t>(width) - 80 : 0)) << line;
      }
    }
  }
}

// Those that a reader may copy: each is a command line of this program, but for the files that it names.
TEST(Help, HasExamplesThatAreCommandLines) {
  for (const CommandEntry& entry : kCommands) {
    std::istringstream lines(entry.examples);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 80u) << line;
      ASSERT_TRUE(line.starts_with("  fsdp-train ")) << line;
      std::istringstream words(line.substr(std::string("  fsdp-train ").size()));
      std::vector<std::string> arguments;
      for (std::string word; words >> word;) {
        if (word == "|" || word == ">" || word == ">>") break;  // the rest is the shell's
        const bool goes_on =
            !arguments.empty() && arguments.back().starts_with('\'') && !arguments.back().ends_with('\'');
        if (goes_on) {
          arguments.back() += " " + word;
        } else {
          arguments.push_back(word);
        }
      }
      const CommandLine parsed = parse_command_line(arguments);
      const bool needs_its_run = line.find("--resume") != std::string::npos;  // whose text is in its configuration
      EXPECT_EQ(parsed.command, entry.command) << line;
      EXPECT_EQ(parsed.problems.size(), needs_its_run ? 1u : 0u) << line << testing::PrintToString(parsed.problems);
    }
  }
}

TEST(Help, IsShortWithOneDash) {
  const std::string brief = parse_command_line({"-h"}).answer, full = parse_command_line({"--help"}).answer;
  size_t options = 0;
  for (const Row& row : option_rows()) options += lists(brief, row) ? 1 : 0;
  EXPECT_EQ(options, 12u);
  EXPECT_THAT(brief, HasSubstr("fsdp-train train --help lists all options.\n"));
  EXPECT_LT(brief.size(), full.size() / 2);
  EXPECT_EQ(parse_command_line({"help"}).answer, brief);
  EXPECT_EQ(parse_command_line({"help", "sample"}).answer, parse_command_line({"sample", "-h"}).answer);
  EXPECT_THAT(parse_command_line({"sample", "-h"}).answer,
              testing::AllOf(HasSubstr("--prompt"), Not(HasSubstr("--rope"))));
}

TEST(Help, OfACommandWithoutOptionsListsNone) {
  for (const char* flag : {"--help", "-h"}) {
    EXPECT_EQ(parse_command_line({"man", flag}).answer,
              "Usage: fsdp-train man\nPrints the manual page.\n\nExamples\n  fsdp-train man | man -l -\n");
  }
}

TEST(Help, ListsTheCommands) {
  for (const char* flag : {"--help", "-h"}) {
    const std::string help = parse_command_line({flag}).answer;
    for (const CommandEntry& entry : kCommands) EXPECT_THAT(help, HasSubstr(std::string("\n  ") + entry.word + " "));
    EXPECT_THAT(help, HasSubstr("--batch"));  // a run needs no command
  }
  EXPECT_THAT(parse_command_line({"report", "--help"}).answer, Not(HasSubstr("--lr")));
}

}  // namespace
}  // namespace trainer
