#include "options/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "options/command_line.h"
#include "options/option_table.h"

namespace trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Help, HasEveryOptionOfACommandAndNoOther) {
  for (const CommandEntry& entry : kCommands) {
    const std::string help = help_text(entry.command, false);
    for (const Row& row : option_rows()) {
      SCOPED_TRACE(std::string(entry.word) + " " + row.flag);
      const std::string begins = std::string("\n  ") + row.flag;
      const bool listed =
          help.find(begins + " ") != std::string::npos || help.find(begins + "...") != std::string::npos;
      EXPECT_EQ(listed, row.is_for(entry.command));
    }
    EXPECT_THAT(help, HasSubstr(entry.summary));
  }
}

TEST(Help, GroupsOptionsWithTheirUnitsAndDefaults) {
  const std::string help = help_text(Command::Train, false);
  for (const char* part : {"\nData [data]\n", "\nModel [model]\n", "\nRanks [ranks]\n", "\nSharding [sharding]\n",
                           "\nTraining [training]\n", "\nLearning rate [training]\n", "\nSamples [samples]\n",
                           "  --micro-batches N ", "[full-shard]", "full-shard, shard-grad-op", "[300]", "[0.001]",
                           "seconds that a rank waits for another [600]", "--trace-steps A..B", "--dry-run "}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
}

TEST(Help, KeepsToItsWidth) {
  for (int width : {60, 80, 100}) {
    std::istringstream lines(help_text(Command::Train, true, width));
    for (std::string line; std::getline(lines, line);) {
      const bool breakable = line.starts_with("  ") && line.find(' ', 29) != std::string::npos;
      if (breakable) {
        EXPECT_LE(line.size(), static_cast<size_t>(width)) << line;
      }
    }
  }
}

TEST(Help, ListsTheCommands) {
  const std::string help = parse_command_line({"--help"}).answer;
  for (const CommandEntry& entry : kCommands) EXPECT_THAT(help, HasSubstr(std::string("\n  ") + entry.word + " "));
  EXPECT_THAT(help, HasSubstr("--micro-batches"));  // a run needs no command
  EXPECT_THAT(parse_command_line({"report", "--help"}).answer, Not(HasSubstr("--lr")));
}

}  // namespace
}  // namespace trainer
