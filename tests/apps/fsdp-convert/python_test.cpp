// Python reads what fsdp-convert writes, and the other way round: check_formats.py has the cases.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "apps/command.h"
#include "support/drawn.h"
#include "support/required.h"
#include "support/temporary_folder.h"

namespace {

class PythonFormats : public ::testing::TestWithParam<std::string> {};

TEST_P(PythonFormats, AreReadAndWrittenByBothSides) {
  constexpr int kSkipped = 77;  // of the script, where Python lacks a package
  const TemporaryFolder folder;
  const Ending ending =
      run_command(fmt::format("'{}' -W ignore '{}' {} '{}' '{}' '{}'", FSDP_PYTHON, FSDP_CHECK_FORMATS, GetParam(),
                              FSDP_CONVERT_PROGRAM, FSDP_TRAIN_PROGRAM, folder.path().string()));
  if (ending.code == kSkipped || ending.code == 127) {
    FSDP_SKIP_TEST("Python lacks what scripts/setup --tests installs: " + ending.output);
  }
  EXPECT_EQ(ending.code, 0) << ending.output;
}

INSTANTIATE_TEST_SUITE_P(All, PythonFormats,
                         fsdp::testing::drawn<std::string>({"torch_save"},
                                                           {"hostile", "hugging_face", "distributed", "ranks_that_read",
                                                            "transformers", "gpt2", "trained"}),
                         [](const auto& name) { return name.param; });

}  // namespace
