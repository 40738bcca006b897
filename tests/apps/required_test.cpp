// Effect of FSDP_TEST_REQUIRE_ALL on a test whose tool is missing.
#include "support/required.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "apps/command.h"

namespace {

using testing::HasSubstr;

// A test of this program that needs tmux, where there is none.
Ending run_without_tmux(const std::string& required) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  return run_command("PATH=/nowhere FSDP_TEST_REQUIRE_ALL=" + required + " " + program +
                     " --gtest_filter=TerminalProgress.IsColoured");
}

TEST(Required, SkipsWhatATestLacks) {
  const Ending ending = run_without_tmux("");
  EXPECT_EQ(ending.code, 77) << ending.output;  // so ctest knows
  EXPECT_THAT(ending.output, HasSubstr("[  SKIPPED ] TerminalProgress.IsColoured"));
}

TEST(Required, FailsWhereAllIsToBeThere) {
  const Ending ending = run_without_tmux("1");
  EXPECT_EQ(ending.code, 1) << ending.output;
  EXPECT_THAT(ending.output,
              HasSubstr("tmux is not there: scripts/setup --tests installs it (FSDP_TEST_REQUIRE_ALL is set)"));
}

}  // namespace
