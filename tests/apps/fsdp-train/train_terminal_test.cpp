// fsdp-train in a terminal: the bar that goes on in it, and Ctrl-C.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "apps/columns.h"
#include "apps/fsdp-train/train_program.h"
#include "apps/terminal.h"
#include "support/required.h"

namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class TrainTerminal : public TrainProgram {
 protected:
  void SetUp() override {
    if (!Terminal::can_be_had()) FSDP_SKIP_TEST("tmux is not there: scripts/setup --tests installs it");
  }

  // In a shell that outlives Ctrl-C, and says how it ended.
  void start(int width, const std::string& more = "--ranks 2 --steps 1000000 --schedule constant") {
    const std::string script =
        folder_.write("job.sh", "trap : INT\n" FSDP_TRAIN_PROGRAM " " + tiny_arguments("run", more) +
                                    "\necho ended with $?\nsleep 60\n");
    terminal_.start(width, "exec sh " + script);
  }

  std::vector<std::string> screen_that_ends_with(const std::string& begin) const {
    return terminal_.screen_when(
        [&](const std::vector<std::string>& shown) { return !shown.empty() && shown.back().starts_with(begin); });
  }

  Terminal terminal_{folder_};
};

TEST_F(TrainTerminal, ShowsOneBarWhateverTheWidth) {
  start(80);
  terminal_.expect_one_bar(80, "left");
  terminal_.resize(200);
  terminal_.expect_one_bar(200, "MFU ");
  terminal_.resize(60);
  terminal_.expect_one_bar(60, "left");
  terminal_.resize(80);
  terminal_.expect_one_bar(80, "loss ");
}

// Nothing runs beside it (alone.cmake).
using TrainTerminalAlone = TrainTerminal;
TEST_F(TrainTerminalAlone, KeepsALinePerValidationAndWrapsNone) {
  start(80, "--ranks 2 --steps 1000000 --schedule constant --validate-every 100 --validation-windows 2");
  const auto validations = [](const std::vector<std::string>& lines) {
    return std::count_if(lines.begin(), lines.end(),
                         [](const std::string& line) { return line.find("  validation loss ") != std::string::npos; });
  };
  terminal_.screen_when([&](const auto& lines) { return validations(lines) >= 3; });
  EXPECT_GE(validations(terminal_.screen()), 3);
  terminal_.expect_one_bar(80, "left");
  const std::vector<std::string> lines = terminal_.screen();
  EXPECT_THAT(lines, testing::Contains(HasSubstr("2 ranks x 1 micro-batch x 2 sequences x 16 = 64 tokens")));
  std::istringstream joined(terminal_.tmux("capture-pane -p -J -S -").output);  // wrapped lines as one
  for (std::string line; std::getline(joined, line);) EXPECT_LE(columns(line), 80) << line;
}

// The terminal has 16 rows. Its lines are broken at words, and nothing is above the error.
TEST_F(TrainTerminal, ShowsAnErrorInOneScreen) {
  ASSERT_EQ(tiny("run", "--ranks 2 --steps 2 --schedule constant").code, 0);
  start(60, "--ranks 2 --steps 4 --schedule constant --seed 2");
  EXPECT_EQ(screen_that_ends_with("ended with").back(), "ended with 2");
  const std::vector<std::string> lines = terminal_.screen();
  EXPECT_EQ(lines.front(), "fsdp-train: 1 problem");
  EXPECT_LE(lines.size(), 16u);
  EXPECT_THAT(lines, testing::Contains("    --seed   1       2"));
  EXPECT_THAT(lines, testing::Contains("    Give the values from before, or begin anew with another"));
  std::istringstream joined(terminal_.tmux("capture-pane -p -J -S -").output);  // wrapped lines as one
  for (std::string line; std::getline(joined, line);)
    EXPECT_TRUE(columns(line) <= 60 || line.find(folder_ / "run") != std::string::npos) << line;
}

TEST_F(TrainTerminal, ShowsAnErrorOfAllRanksOnce) {
  ASSERT_EQ(tiny("run", "--ranks 2 --steps 2 --schedule constant").code, 0);
  for (const auto& entry : fs::directory_iterator(folder_ / "run/step-2")) {
    if (entry.path().extension() == ".safetensors") fs::resize_file(entry.path(), fs::file_size(entry.path()) - 1);
  }
  start(80, "--ranks 2 --steps 4 --schedule constant --resume " + (folder_ / "run/step-2"));
  EXPECT_THAT(screen_that_ends_with("ended with").back(), testing::StartsWith("ended with"));
  const std::string all = terminal_.tmux("capture-pane -p -J -S -").output;
  EXPECT_EQ(all.find("Use an older checkpoint"), all.rfind("Use an older checkpoint")) << all;
  EXPECT_THAT(all, HasSubstr("\n  Was it cut off? Use an older checkpoint"));
  EXPECT_THAT(all, HasSubstr("failed with exit code 1; the other ranks were ended."));
}

// A step that takes very long: something is on the screen before it ends, and Ctrl-C is answered in it.
TEST_F(TrainTerminal, AnswersControlCAtOnce) {
  start(80, "--micro-batches 65536 --steps 1000000");
  terminal_.expect_one_bar(80, "step 1 runs");
  ASSERT_EQ(terminal_.tmux("send-keys C-c").code, 0);
  EXPECT_EQ(screen_that_ends_with("stopping after").back(), "stopping after this step; again to quit without saving");
  std::this_thread::sleep_for(std::chrono::seconds(2));  // what comes within a second is the same request
  ASSERT_EQ(terminal_.tmux("send-keys C-c").code, 0);
  const auto has_ended = [](const std::vector<std::string>& lines) {
    return !lines.empty() && lines.back().ends_with("ended with 130");  // after the terminal's own ^C
  };
  EXPECT_TRUE(has_ended(terminal_.screen_when(has_ended)));
  EXPECT_FALSE(fs::exists(folder_ / "run/step-1"));
}

TEST_F(TrainTerminal, StopsAtControlC) {
  start(200);
  terminal_.expect_one_bar(200, "left");
  ASSERT_EQ(terminal_.tmux("send-keys C-c").code, 0);
  const std::vector<std::string> lines = screen_that_ends_with("ended with");
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back(), "ended with 130");
  const size_t steps = losses_of(folder_ / "run").size();
  const std::string told = "step " + std::to_string(steps) + ": stops: Interrupt";
  EXPECT_THAT(lines, testing::Contains(told));
  EXPECT_THAT(lines, testing::Contains("stopping after this step; again to quit without saving"));
  EXPECT_THAT(lines, testing::Contains(HasSubstr("/1000000 ")));
  EXPECT_TRUE(fs::exists(folder_ / ("run/step-" + std::to_string(steps) + "/manifest.json")));
}

// For longer than a rank waits for another.
TEST_F(TrainTerminal, GoesOnAfterControlZ) {
  const std::string script = folder_.write(
      "job.sh", "set -m\n" FSDP_TRAIN_PROGRAM " " + tiny_arguments("run", "--ranks 2 --steps 1000000 --timeout 2") +
                    "\necho stopped\nsleep 4\nfg\necho ended with $?\nsleep 60\n");
  terminal_.start(200, "exec sh " + script);
  terminal_.expect_one_bar(200, "left");
  ASSERT_EQ(terminal_.tmux("send-keys C-z").code, 0);
  ASSERT_EQ(screen_that_ends_with("stopped").back(), "stopped");
  const size_t steps = losses_of(folder_ / "run").size();
  const auto goes_on = [&](const auto&) { return losses_of(folder_ / "run").size() > steps + 10; };
  EXPECT_TRUE(goes_on(terminal_.screen_when(goes_on)));
  ASSERT_EQ(terminal_.tmux("send-keys C-c").code, 0);
  EXPECT_EQ(screen_that_ends_with("ended with").back(), "ended with 130");
}

TEST_F(TrainTerminal, SavesWhenTheTerminalIsClosed) {
  start(80);
  terminal_.expect_one_bar(80, "left");
  ASSERT_EQ(terminal_.tmux("kill-server").code, 0);
  const auto has_saved = [&](const auto&) {
    const size_t steps = losses_of(folder_ / "run").size();
    return fs::exists(folder_ / ("run/step-" + std::to_string(steps) + "/manifest.json"));
  };
  EXPECT_TRUE(has_saved(terminal_.screen_when(has_saved)));
}

}  // namespace
