#include "run/problems.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace trainer {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::string printed(const std::vector<std::string>& problems, const std::string& configuration = "",
                    Command command = Command::Train) {
  ::testing::internal::CaptureStderr();
  print_problems(problems, configuration, command);
  return ::testing::internal::GetCapturedStderr();
}

TEST(PrintProblems, SaysWhereOptionsCameFrom) {
  EXPECT_THAT(printed({"one", "another"}, "run.toml"),
              AllOf(StartsWith("fsdp-train: 2 problems\n  one\n  another\n"), HasSubstr("read from run.toml"),
                    EndsWith("Nothing was written.\n")));
  EXPECT_THAT(printed({"one"}), Not(HasSubstr("read from")));
}

TEST(PrintProblems, NamesTheHelpOfTheCommand) {
  EXPECT_THAT(printed({"one"}), HasSubstr("\nfsdp-train --help lists all options. "));
  EXPECT_THAT(printed({"one"}, "", Command::Sample), HasSubstr("\nfsdp-train sample --help lists all its options. "));
  EXPECT_THAT(printed({"one"}, "", Command::Doctor), HasSubstr("\nfsdp-train doctor --help explains it. "));
}

TEST(PrintProblems, CutsLongOnes) {
  EXPECT_THAT(printed({"found '" + std::string(100'000, '[') + "'"}),
              AllOf(SizeIs(Lt(3000u)), HasSubstr("more bytes")));
}

}  // namespace
}  // namespace trainer
