// Names and texts of strangers reach a terminal as text alone.
#include "console/terminal.h"

#include <gtest/gtest.h>

#include <string>

namespace trainer {
namespace {

const std::string kHostile = "run\033]0;owned\007\033[2J\r\xff caf\u00e9\n";
const std::string kHarmless = "run\\x1b]0;owned\\x07\\x1b[2J\\x0d\\xff caf\u00e9\n";

TEST(Terminal, IsNotCommandedByWhatIsPrinted) {
  testing::internal::CaptureStdout();
  print(kHostile);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), kHarmless);
  testing::internal::CaptureStderr();
  print_error(kHostile);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), kHarmless);
}

TEST(Terminal, ObeysWhatIsDrawn) {
  testing::internal::CaptureStdout();
  draw("\r\033[J");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "\r\033[J");
}

}  // namespace
}  // namespace trainer
