// How the program lets the threads of a rank wait for each other: it executes itself anew with a variable that OpenMP
// reads when it is loaded.
#include "fsdp-train/passive_waits.h"

#include <gmock/gmock.h>

#include "apps/fsdp-train/train_program.h"

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using PassiveWaits = TrainProgram;

// Starts a run with `variables`, and prints its environment and its name once it trains.
std::string surroundings(const std::string& variables, const std::string& arguments, const std::string& run) {
  const std::string script = "env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT " + variables + " " FSDP_TRAIN_PROGRAM " " +
                             arguments + " >/dev/null & p=$!; until grep -q loss " + run +
                             "/metrics.jsonl || ! kill -0 $p; do sleep 0.05; done; tr \"\\\\0\" \"\\\\n\" "
                             "</proc/$p/environ; cat /proc/$p/comm; kill $p; wait $p";
  return run_command("sh -c '{ " + script + "; } 2>/dev/null'").output;
}

TEST_F(PassiveWaits, AreSetBeforeOpenMpIsLoaded) {
  for (const std::string ranks : {"1", "2"}) {
    const std::string run = "run-" + ranks;
    const std::string found = surroundings("", tiny_arguments(run, "--steps 100000 --ranks " + ranks), folder_ / run);
    EXPECT_THAT(found, AllOf(HasSubstr("OMP_WAIT_POLICY=passive\n"), HasSubstr("\nfsdp-train\n")));
  }
}

TEST_F(PassiveWaits, AreLeftToTheUserWhoChose) {
  EXPECT_THAT(surroundings("OMP_WAIT_POLICY=active", tiny_arguments("a", "--steps 100000"), folder_ / "a"),
              HasSubstr("OMP_WAIT_POLICY=active\n"));
  EXPECT_THAT(surroundings("GOMP_SPINCOUNT=5", tiny_arguments("b", "--steps 100000"), folder_ / "b"),
              AllOf(HasSubstr("GOMP_SPINCOUNT=5\n"), Not(HasSubstr("OMP_WAIT_POLICY"))));
}

// The file of the process is then the linker's.
TEST_F(PassiveWaits, AreNotSetWhereTheDynamicLinkerIsTheProgram) {
  const Ending ending = run_command("sh -c 'env -u OMP_WAIT_POLICY $(readelf -l " FSDP_TRAIN_PROGRAM
                                    " | sed -n \"s/.*interpreter: \\(.*\\)\\]/\\1/p\") " FSDP_TRAIN_PROGRAM
                                    " --dry-run --peak-flops 1T'");
  EXPECT_EQ(ending.code, 0) << ending.output;
}

TEST(PassiveWaitsOfCommands, AreForThoseThatCompute) {
  for (const char* word : {"", "train", "sample", "doctor", "--text", "--eval-only", "--dry-run", "no-command"}) {
    EXPECT_TRUE(trainer::computes(word)) << word;
  }
  for (const char* word : {"completion", "man", "report", "prepare", "help", "--help", "-h", "--version"}) {
    EXPECT_FALSE(trainer::computes(word)) << word;
  }
}

}  // namespace
