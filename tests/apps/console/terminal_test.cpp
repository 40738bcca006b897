// Names and texts of strangers reach a terminal as text alone.
#include "console/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>

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

// Another program that has the same pipe may have made it so.
TEST(Terminal, WaitsForAPipeThatDoesNotWait) {
  const std::string text(1 << 20, 'x');
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const int before = dup(STDOUT_FILENO);
  dup2(ends[1], STDOUT_FILENO);
  close(ends[1]);
  std::string read_text;
  std::thread reader([&] {
    char bytes[4096];
    for (ssize_t count; (count = read(ends[0], bytes, sizeof bytes)) != 0;) {
      if (count > 0) read_text.append(bytes, static_cast<size_t>(count));
    }
  });
  print(text);
  dup2(before, STDOUT_FILENO);
  close(before);
  reader.join();
  close(ends[0]);
  EXPECT_TRUE(read_text == text) << read_text.size();
  EXPECT_EQ(output_problem(), "");
}

}  // namespace
}  // namespace trainer
