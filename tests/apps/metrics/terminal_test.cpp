// The look of a progress bar in a real terminal.
#include "apps/terminal.h"

#include <gmock/gmock.h>

#include "apps/columns.h"
#include "support/required.h"

namespace {

using testing::HasSubstr;
using testing::Not;

class TerminalProgress : public testing::Test {
 protected:
  void SetUp() override {
    if (!Terminal::can_be_had()) FSDP_SKIP_TEST("tmux is not there: scripts/setup --tests installs it");
  }
  ~TerminalProgress() override {
    folder_.write("stop", "");
    folder_.write("leave", "");
  }

  void start(int width, const std::string& variables = "") {
    terminal_.start(width, variables + " exec " FSDP_PROGRESS_PROGRAM " " + folder_.path().string());
  }

  TemporaryFolder folder_;
  Terminal terminal_{folder_};
};

TEST_F(TerminalProgress, Is1BarAt80And200ColumnsAndAfterEachResize) {
  start(80);
  terminal_.expect_one_bar(80, "loss  2.500", 5);
  EXPECT_THAT(terminal_.screen().back(), Not(HasSubstr("MFU")));
  terminal_.resize(200);
  terminal_.expect_one_bar(200, "MFU 41.0 %", 5);
  EXPECT_THAT(terminal_.screen().back(), HasSubstr("120 ms"));
  terminal_.resize(80);
  terminal_.expect_one_bar(80, "left", 5);
  terminal_.resize(40);
  terminal_.expect_one_bar(40, "left", 5);
  terminal_.resize(133);
  terminal_.expect_one_bar(133, "left", 5);
  EXPECT_EQ(terminal_.screen().front(), "line 1");
}

TEST_F(TerminalProgress, StandsWholeBetweenWhatComesBeforeAndAfter) {
  start(200);
  terminal_.expect_one_bar(200, "left", 5);
  folder_.write("tell", "");
  terminal_.expect_one_bar(200, "left", 6);
  EXPECT_EQ(terminal_.screen()[5], "checkpoint saved");
  terminal_.resize(80);
  folder_.write("stop", "");
  const std::vector<std::string> lines = terminal_.screen_when(
      [](const std::vector<std::string>& shown) { return !shown.empty() && shown.back() == "last line"; });
  ASSERT_EQ(lines.size(), 8u) << testing::PrintToString(lines);
  EXPECT_EQ(lines[4], "line 5");
  EXPECT_EQ(lines[5], "checkpoint saved");
  EXPECT_THAT(lines[6], HasSubstr("/1000000"));
  EXPECT_EQ(lines[7], "last line");
}

TEST_F(TerminalProgress, IsColoured) {
  start(80);
  terminal_.expect_one_bar(80, "left", 5);
  EXPECT_THAT(terminal_.tmux("capture-pane -e -p").output, HasSubstr("\033["));
}

TEST_F(TerminalProgress, HasNoColourWhereNoColorIsSet) {
  start(80, "NO_COLOR=1");
  terminal_.expect_one_bar(80, "left", 5);
  EXPECT_THAT(terminal_.tmux("capture-pane -e -p").output, Not(HasSubstr("\033[")));
}

TEST_F(TerminalProgress, IsOfTheCharactersOfItsLocale) {
  start(80, "LC_ALL=C");
  terminal_.expect_one_bar(80, "....", 5);
  for (const std::string& line : terminal_.screen()) {
    for (const unsigned char c : line) EXPECT_LT(c, 0x80) << line;
  }
}

TEST_F(TerminalProgress, IsDrawnInUnicodeWhereTheLocaleIs) {
  start(80, "LC_ALL=C.UTF-8");
  terminal_.expect_one_bar(80, "░", 5);
}

TEST_F(TerminalProgress, ShowsItselfBeforeTheFirstStepIsDone) {
  folder_.write("wait", "");
  start(80);
  terminal_.expect_one_bar(80, "step 1 runs", 5);
  std::filesystem::remove(folder_ / "wait");
  terminal_.expect_one_bar(80, "left", 5);
}

TEST_F(TerminalProgress, KeepsALinePerValidation) {
  start(80);
  terminal_.expect_one_bar(80, "left", 5);
  for (size_t count = 1; count <= 3; ++count) {
    folder_.write("validate", "");
    terminal_.expect_one_bar(80, "left", 5 + count);
    EXPECT_THAT(terminal_.screen()[4 + count], HasSubstr("/1000000  validation loss  2.2500  loss  2.5000"));
  }
}

TEST(PipedProgress, HasNoControlCharacters) {
  TemporaryFolder folder;
  const Ending ending =
      run_command("sh -c '" FSDP_PROGRESS_PROGRAM " " + folder.path().string() + " & sleep 0.3; touch " +
                  (folder / "tell") + "; sleep 0.1; touch " + (folder / "stop") + " " + (folder / "leave") + "; wait'");
  EXPECT_THAT(ending.output, HasSubstr("step       1/1000000  loss  2.5000"));
  EXPECT_THAT(ending.output, HasSubstr("\ncheckpoint saved\n"));
  EXPECT_THAT(ending.output, HasSubstr("last line\n"));
  EXPECT_FALSE(has_control_characters(ending.output)) << ending.output;
}

}  // namespace
