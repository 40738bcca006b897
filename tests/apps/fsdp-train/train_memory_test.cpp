// Memory of runs: what they report of it, and those that cannot have what they need.
#include <gmock/gmock.h>

#include <unistd.h>

#include <fstream>
#include <sstream>

#include "apps/fsdp-train/train_program.h"
#include "support/required.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class TrainMemory : public TrainProgram {
 protected:
  // With 12 GB of addresses for each process. An embedding of 34 GB is more than that, and nobody has begun to make it
  // when the run ends.
  Ending limited(const std::string& run, const std::string& more) const {
    return run_command("ulimit -v 12000000; " FSDP_TRAIN_PROGRAM " " + tiny_arguments(run, more));
  }
  const std::string too_large_ = "--vocabulary 16777216 --width 512 --heads 4 ";
};

TEST_F(TrainMemory, IsRefusedWhereThereIsTooLittle) {
  const Ending ending = limited("large", too_large_);
  EXPECT_EQ(ending.code, 2) << ending.output;
  for (const char* part : {"memory                  per rank at most       all ranks\n", "  activations ",
                           "this host\n  memory              does not fit: ", "  it would take\n",
                           "the run needs more memory than this host has left", "--ignore-memory"}) {
    EXPECT_THAT(ending.output, HasSubstr(part));
  }
  EXPECT_FALSE(fs::exists(folder_ / "large"));
}

TEST_F(TrainMemory, IsRefusedOnceForAllRanks) {
  const Ending ending = limited("large", too_large_ + "--ranks 2");
  EXPECT_EQ(ending.code, 2) << ending.output;
  EXPECT_EQ(ending.output.find("it would take"), ending.output.rfind("it would take")) << ending.output;
}

TEST_F(TrainMemory, IsTriedWhereItIsAskedFor) {
  const Ending ending = limited("large", too_large_ + "--ignore-memory");
  EXPECT_NE(ending.code, 0);
  EXPECT_NE(ending.code, 2);
  EXPECT_THAT(ending.output, AllOf(Not(HasSubstr("it would take")), HasSubstr("memory")));
}

TEST_F(TrainMemory, IsThereForASmallRunWithinTheLimit) {
  const Ending ending = limited("small", "");
  EXPECT_EQ(ending.code, 0) << ending.output;
}

TEST_F(TrainMemory, IsRefusedWhereTheDiskHasNoRoomForTheFiles) {
  if (geteuid() != 0) FSDP_SKIP_TEST("needs root, to mount a small disk");
  const Ending ending = run_command(
      "unshare -m sh -c 'cd " + folder_.path().string() +
      " && mkdir disk && mount -t tmpfs -o size=2m none disk && " FSDP_TRAIN_PROGRAM " " +
      tiny_arguments("run", "--width 128 --layers 3 --offload optimizer --offload-directory disk --ranks 2") + "'");
  EXPECT_EQ(ending.code, 2) << ending.output;
  EXPECT_THAT(ending.output, AllOf(HasSubstr("  disk                does not fit: "), HasSubstr("needed for the files"),
                                   HasSubstr("the disk of 'disk' has too little free space")));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(TrainMemory, OfOneJobAloneLiesInAFolder) {
  const std::string files = " --offload all --offload-directory " + (folder_ / "files");
  const Ending ending = run_command(
      FSDP_TRAIN_PROGRAM " " + tiny_arguments("first", "--steps 100000" + files) + " > " + (folder_ / "first.txt") +
      " 2>&1 & first=$!; for i in $(seq 600); do grep -q loss " + (folder_ / "first/metrics.jsonl") +
      " 2>/dev/null && break; sleep 0.1; done; " FSDP_TRAIN_PROGRAM " " + tiny_arguments("second", files) +
      " 2>&1; code=$?; kill $first; wait $first; echo first ended with $?; exit $code");
  EXPECT_EQ(ending.code, 2) << ending.output;
  EXPECT_THAT(ending.output, AllOf(HasSubstr("offload_directory: "), HasSubstr("two jobs cannot share one"),
                                   HasSubstr("first ended with 75\n")));
  const Ending again = tiny("second", "--steps 3" + files);  // when the folder is free
  EXPECT_EQ(again.code, 0) << again.output;
}

// A run reports the activations of its plan.
TEST_F(TrainMemory, OfActivationsIsThatOfThePlan) {
  for (const char* more : {"--ranks 2 --param-dtype bf16 --batch 2", "--dropout 0.1 --batch 1"}) {
    SCOPED_TRACE(more);
    const std::string run = std::string("run-") + more[2];
    const Ending ending = tiny(run, more);
    ASSERT_EQ(ending.code, 0) << ending.output;
    EXPECT_THAT(ending.output, HasSubstr("of activations at most, on rank 0\n"));
    const json memory = metrics_of(folder_ / run).back()["memory"];
    EXPECT_GT(memory["other tensors"], 0);
    std::istringstream plan(run_train("--dry-run --peak-flops 1T " + tiny_arguments(run + "-planned", more)).output);
    std::string line, unit;
    while (std::getline(plan, line) && !line.starts_with("  activations ")) continue;
    double planned = 0;
    std::istringstream(line.substr(std::string("  activations ").size())) >> planned >> unit;
    if (unit == "kB") planned *= 1e3;
    if (unit == "MB") planned *= 1e6;
    // The line has three digits.
    EXPECT_NEAR(planned, memory["activations"].get<double>(), 0.005 * planned) << line;
  }
}

}  // namespace
