#include "manual/man_page.h"
#include "manual/train_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/command.h"
#include "manual/roff.h"
#include "options/option_table.h"
#include "options/option_text.h"
#include "support/required.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::HasSubstr;

// The page as groff sets it for a terminal of 80 columns, after its warnings, of which there should be none.
class ManPage : public testing::Test {
 protected:
  void SetUp() override {
    if (run_command("groff --version").code != 0) {
      FSDP_SKIP_TEST("groff is not there: scripts/setup --tests installs it");
    }
  }
  Ending groff(const std::string& options) const {
    return run_command("groff -man -ww " + options + " " + folder_.write("fsdp-train.1", man_page(train_program())));
  }

  TemporaryFolder folder_;
};

TEST_F(ManPage, IsSetWithoutWarnings) {
  for (const char* device : {"utf8", "ascii"}) {
    const Ending ending = groff(std::string("-z -T") + device);
    EXPECT_EQ(ending.code, 0);
    EXPECT_EQ(ending.output, "") << device;
  }
}

TEST_F(ManPage, HasItsSectionsInOrderAndEveryOption) {
  const Ending ending = groff("-Tascii -P-cbou");
  ASSERT_EQ(ending.code, 0);
  size_t at = 0;
  for (const char* title :
       {"NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "OPTIONS", "EXAMPLES", "FILES", "ENVIRONMENT", "EXIT STATUS"}) {
    at = ending.output.find(std::string("\n") + title + "\n", at);
    ASSERT_NE(at, std::string::npos) << title;
  }
  for (const Row& row : option_rows()) {
    const std::string value = placeholder(row);
    EXPECT_THAT(ending.output, HasSubstr("       " + std::string(row.flag) + (value.empty() ? "" : " " + value)));
  }
  for (const CommandEntry& entry : kCommands)
    EXPECT_THAT(ending.output, HasSubstr("\n       " + std::string(entry.word)));
  for (const char* part : {"fsdp-train - trains language models", "--prompt 'Once upon a time'", "~/.cache/fsdp/",
                           "Data [data]", "[full-shard]", "--cache FOLDER  (train, prepare)"}) {
    EXPECT_THAT(ending.output, HasSubstr(part));
  }
}

TEST(ManPageText, LeavesOutWhatAProgramDoesNotHave) {
  const std::string page =
      man_page({.name = "make",
                .commands = {{.word = "make", .usages = {"IT", "--list"}, .typing = CommandWord::NeverTyped}},
                .options = {{.flag = "--list", .text = "Lists.", .commands = {"make"}}}});
  EXPECT_THAT(page, HasSubstr(".nf\n\\fBmake\\fR IT\n\\fBmake\\fR \\-\\-list\n.fi\n"));
  EXPECT_THAT(page, HasSubstr(".TP\n\\fB\\-\\-list\\fR\nLists.\n"));
  EXPECT_THAT(page, testing::Not(HasSubstr("COMMAND")));
}

TEST(Roff, KeepsWhatWouldBeARequestOrASign) {
  EXPECT_EQ(roff_text(".so what"), "\\&.so what");
  EXPECT_EQ(roff_text("'a' \\n --b ~"), "\\(aqa\\(aq \\en \\-\\-b \\(ti");
  EXPECT_EQ(roff_item(roff_bold("--a"), "B."), ".TP\n\\fB\\-\\-a\\fR\nB.\n");
}

}  // namespace
}  // namespace trainer
