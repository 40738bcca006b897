// Standard output on a full disk: fsdp-convert reports it, and fails.
#include <gtest/gtest.h>

#include <filesystem>

#include "apps/command.h"
#include "support/temporary_folder.h"

namespace {

TEST(ConvertFullOutput, IsAnErrorOfEachCommand) {
  TemporaryFolder folder;
  const std::string text = folder / "text.txt", run = folder / "run";
  folder.write("text.txt", std::string(4000, 'a') + "\n");
  const Ending trained = run_command(FSDP_TRAIN_PROGRAM
                                     " --context 8 --width 16 --layers 1 --heads 2 --batch 1 --threads 1 --steps 1 "
                                     "--sample-length 0 --text " +
                                     text + " --run " + run);
  ASSERT_EQ(trained.code, 0) << trained.output;
  const std::string step = run + "/step-1", target = folder / "model";
  for (const std::string& arguments :
       {std::string("--help"), std::string("--version"), "--list " + step, step + " " + target + " --to hf"}) {
    const Ending ending = run_command("sh -c '" FSDP_CONVERT_PROGRAM " " + arguments + " >/dev/full'");
    EXPECT_EQ(ending.code, 1) << arguments;
    EXPECT_EQ(ending.output,
              "fsdp-convert: cannot write to standard output: No space left on device. Free space on its disk, or send "
              "the output elsewhere.\n")
        << arguments;
  }
  EXPECT_TRUE(std::filesystem::exists(target));
}

}  // namespace
