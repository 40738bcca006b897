// What a progress bar looks like in a real terminal: tmux is one that can be read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>
#include <vector>

#include "apps/columns.h"
#include "apps/command.h"
#include "apps/temporary_folder.h"

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

class TerminalProgress : public testing::Test {
 protected:
  void SetUp() override {
    if (run_command("tmux -V").code != 0) GTEST_SKIP() << "tmux is not there: scripts/setup installs it";
  }
  ~TerminalProgress() override {
    folder_.write("stop", "");
    folder_.write("leave", "");
    tmux("kill-server");
  }

  Ending tmux(const std::string& arguments) const {
    return run_command("tmux -u -f /dev/null -S " + (folder_ / "socket") + " " + arguments);
  }
  void start(int width, const std::string& variables = "") {
    const Ending ending = tmux("new-session -d -x " + std::to_string(width) + " -y 16 \"" + variables +
                               " exec " FSDP_PROGRESS_PROGRAM " " + folder_.path().string() + "\"");
    ASSERT_EQ(ending.code, 0) << ending.output;
  }
  void resize(int width) { ASSERT_EQ(tmux("resize-window -y 16 -x " + std::to_string(width)).code, 0); }

  // The lines of the screen, without the empty ones at its end, after those that were scrolled away: a terminal that
  // becomes narrower wraps its lines, and moves the first ones out.
  std::vector<std::string> screen() const {
    std::istringstream text(tmux("capture-pane -p -S -").output);
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    while (!lines.empty() && lines.back().empty()) lines.pop_back();
    return lines;
  }

  template <typename Condition>
  std::vector<std::string> screen_when(Condition condition) const {
    std::vector<std::string> lines = screen();
    for (auto waited = 0ms; waited < 20s && !condition(lines); waited += 50ms) {
      std::this_thread::sleep_for(50ms);
      lines = screen();
    }
    return lines;
  }

  // Below `above` lines there is one bar, of at most `width` - 1 columns, and nothing else, now and while it goes on.
  void expect_one_bar(size_t above, int width, const std::string& part) {
    const auto is_one_bar = [&](const std::vector<std::string>& lines) {
      return lines.size() == above + 1 && lines.back().find("/1000000") != std::string::npos &&
             lines.back().find(part) != std::string::npos && columns(lines.back()) < width;
    };
    screen_when(is_one_bar);
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(is_one_bar(screen())) << testing::PrintToString(screen());
      std::this_thread::sleep_for(60ms);
    }
  }

  TemporaryFolder folder_;
};

TEST_F(TerminalProgress, Is1BarAt80And200ColumnsAndAfterEachResize) {
  start(80);
  expect_one_bar(5, 80, "loss 2.500");
  EXPECT_THAT(screen().back(), Not(HasSubstr("MFU")));
  resize(200);
  expect_one_bar(5, 200, "MFU 41.0 %");
  EXPECT_THAT(screen().back(), HasSubstr("120 ms"));
  resize(80);
  expect_one_bar(5, 80, "left");
  resize(40);
  expect_one_bar(5, 40, "left");
  resize(133);
  expect_one_bar(5, 133, "left");
  EXPECT_EQ(screen().front(), "line 1");
}

TEST_F(TerminalProgress, StandsWholeBetweenWhatComesBeforeAndAfter) {
  start(200);
  expect_one_bar(5, 200, "left");
  folder_.write("tell", "");
  expect_one_bar(6, 200, "left");
  EXPECT_EQ(screen()[5], "checkpoint saved");
  resize(80);
  folder_.write("stop", "");
  const std::vector<std::string> lines =
      screen_when([](const std::vector<std::string>& shown) { return !shown.empty() && shown.back() == "last line"; });
  ASSERT_EQ(lines.size(), 8u) << testing::PrintToString(lines);
  EXPECT_EQ(lines[4], "line 5");
  EXPECT_EQ(lines[5], "checkpoint saved");
  EXPECT_THAT(lines[6], HasSubstr("/1000000"));
  EXPECT_EQ(lines[7], "last line");
}

TEST_F(TerminalProgress, IsColoured) {
  start(80);
  expect_one_bar(5, 80, "left");
  EXPECT_THAT(tmux("capture-pane -e -p").output, HasSubstr("\033["));
}

TEST_F(TerminalProgress, HasNoColourWhereNoColorIsSet) {
  start(80, "NO_COLOR=1");
  expect_one_bar(5, 80, "left");
  EXPECT_THAT(tmux("capture-pane -e -p").output, Not(HasSubstr("\033[")));
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
