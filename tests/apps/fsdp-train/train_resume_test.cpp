// A run that goes on is the same run, alone in its folder, and leaves what it was asked for.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>

#include "apps/fsdp-train/train_job.h"
#include "apps/fsdp-train/train_program.h"
#include "support/required.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
namespace fs = std::filesystem;

using TrainResume = TrainProgram;

TEST_F(TrainResume, IsRefusedToAnotherRun) {
  for (const std::string& ranks : {std::string("1"), std::string("2")}) {
    const std::string run = "run-" + ranks;
    const std::string job = "--ranks " + ranks + " --schedule constant ";
    ASSERT_EQ(tiny(run, job + "--steps 2").code, 0);
    const std::string before = read_bytes(folder_ / run + "/metrics.jsonl");
    const Ending other = tiny(run, job + "--steps 4 --seed 2 --lr 0.25");
    EXPECT_EQ(other.code, 2) << other.output;
    // The error is all that is on the screen.
    EXPECT_EQ(other.output, "fsdp-train: 1 problem\n  checkpoint '" + (folder_ / run) +
                                "/step-2' is of another run. Give the values from before, or begin anew with another "
                                "--run.\n    To go on from it all the same: --checkpoint " +
                                (folder_ / run) +
                                "/step-2 --run OTHER\n"
                                "    name     before  now\n"
                                "    --seed   1       2\n"
                                "    (and these, which may differ)\n"
                                "    --lr     0.004   0.25\n"
                                "    --steps  2       4\n"
                                "fsdp-train --help lists all options. Nothing was written.\n");
    EXPECT_EQ(read_bytes(folder_ / run + "/metrics.jsonl"), before);
    const Ending same = tiny(run, job + "--steps 4 --lr 0.25");
    EXPECT_EQ(same.code, 0) << same.output;
    EXPECT_THAT(same.output, HasSubstr("step-2 (--lr: 0.004 before, 0.25 now; --steps: 2 before, 4 now)"));
  }
}

TEST_F(TrainResume, IsRefusedToDataOfWhichOneByteHasChanged) {
  const std::string text = read_bytes(text_);
  const auto time = fs::last_write_time(text_);
  ASSERT_EQ(tiny("run", "--steps 2").code, 0);
  for (const size_t place : {text.size() / 7, text.size() / 2}) {
    std::string changed = text;
    changed[place] ^= 1;
    folder_.write("text.txt", changed);
    fs::last_write_time(text_, time);
    const Ending other = run_train("--resume " + (folder_ / "run") + " --steps 4");
    EXPECT_EQ(other.code, 2) << other.output;
    EXPECT_THAT(other.output, AllOf(HasSubstr("is of another run."),
                                    ContainsRegex("\n    the content of the training data +[0-9a-f]+ +[0-9a-f]+\n")));
  }
  folder_.write("text.txt", text);  // as a copy of it, it has another time
  const Ending same = run_train("--resume " + (folder_ / "run") + " --steps 4");
  EXPECT_EQ(same.code, 0) << same.output;
  EXPECT_THAT(same.output, HasSubstr("run/step-2 (--steps: 2 before, 4 now)\n"));
}

TEST_F(TrainResume, GoesOnWithOtherSettingsWhereACheckpointIsNamed) {
  ASSERT_EQ(tiny("first", "--steps 2").code, 0);
  const Ending other = tiny("other", "--steps 4 --seed 2 --checkpoint " + (folder_ / "first/step-2"));
  EXPECT_EQ(other.code, 0) << other.output;
  EXPECT_THAT(other.output, HasSubstr("--seed: 1 before, 2 now"));
  const Ending third = tiny("other", "--steps 4 --checkpoint " + (folder_ / "first/step-2"));
  EXPECT_EQ(third.code, 2) << third.output;
  EXPECT_THAT(third.output, HasSubstr("is the record of another run"));
  EXPECT_EQ(losses_of(folder_ / "other").size(), 2u);
}

TEST_F(TrainResume, IsNotOfARunThatSavesNothing) {
  for (int time = 0; time < 2; ++time) {
    const Ending trial = tiny("trial", "--steps 3 --validate-every 1 --ranks 2 --no-save");
    EXPECT_EQ(trial.code, 0) << trial.output;
    EXPECT_THAT(trial.output, AllOf(HasSubstr("checkpoint: none, as --no-save asks"), Not(HasSubstr("goes on from"))));
    EXPECT_FALSE(fs::exists(folder_ / "trial/step-3"));
    EXPECT_FALSE(fs::exists(folder_ / "trial/best"));
    EXPECT_EQ(losses_of(folder_ / "trial").size(), 3u);
  }
  const Ending both = tiny("refused", "--no-save --save-every 1");
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.output, HasSubstr("--no-save is given with --save-every or --save-minutes"));
}

TEST_F(TrainResume, OfAFinishedRunIsRefusedToOtherOptions) {
  for (const std::string& ranks : {std::string("1"), std::string("2")}) {
    const std::string run = "run-" + ranks, job = "--ranks " + ranks + " ";
    ASSERT_EQ(tiny(run, job + "--steps 4").code, 0);
    const std::string before = read_bytes(folder_ / run + "/metrics.jsonl");
    const Ending other = tiny(run, job + "--steps 4 --lr 0.25 --clip 2");
    EXPECT_EQ(other.code, 2) << other.output;
    EXPECT_THAT(other.output, AllOf(StartsWith("fsdp-train: 1 problem"), HasSubstr("has done all its 4 steps"),
                                    ContainsRegex("--lr +0.004 +0.25\n"), ContainsRegex("--clip +1 +2\n"),
                                    HasSubstr("give more --steps")));
    const Ending shorter = tiny(run, job + "--steps 3");
    EXPECT_EQ(shorter.code, 2) << shorter.output;
    EXPECT_THAT(shorter.output, ContainsRegex("--steps +4 +3\n"));
    EXPECT_EQ(read_bytes(folder_ / run + "/metrics.jsonl"), before);
    const Ending same = tiny(run, job + "--steps 4");
    EXPECT_EQ(same.code, 0) << same.output;
    EXPECT_THAT(same.output, HasSubstr("all 4 steps are done"));
  }
}

// As a job that is started again after its end, and gets fewer.
TEST_F(TrainResume, OfAFinishedRunIsDoneOnOtherRanksToo) {
  const std::string settings = "--batch 2 --context 16 --tokens-per-step 128 --steps 2";
  ASSERT_EQ(tiny("run", settings + " --ranks 2").code, 0);
  const Ending again = tiny("run", settings + " --ranks 1");
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("all 2 steps are done"));
}

// With as many micro-batches in a step: the losses of a run that was not stopped.
TEST_F(TrainResume, GoesOnWithOtherRanks) {
  const std::string job = "--schedule constant --lr 0.01 ";
  ASSERT_EQ(tiny("whole", job + "--ranks 2 --steps 6").code, 0);
  ASSERT_EQ(tiny("run", job + "--ranks 2 --steps 2").code, 0);
  const Ending fewer = run_train("--resume " + (folder_ / "run") + " --ranks 1 --steps 4");
  EXPECT_EQ(fewer.code, 0) << fewer.output;
  EXPECT_THAT(fewer.output, AllOf(HasSubstr("goes on from " + (folder_ / "run/step-2")),
                                  HasSubstr("--steps: 2 before, 4 now"), Not(HasSubstr("--micro-batches"))));
  const Ending more = tiny("run", job + "--ranks 2 --strategy no-shard --steps 6");
  EXPECT_EQ(more.code, 0) << more.output;
  EXPECT_EQ(losses_of(folder_ / "run"), losses_of(folder_ / "whole"));
}

TEST_F(TrainResume, SaysHowAStepKeepsItsTokensOnOtherRanks) {
  ASSERT_EQ(tiny("run", "--ranks 2 --steps 2").code, 0);
  const Ending fewer = tiny("run", "--ranks 1 --steps 4");
  EXPECT_EQ(fewer.code, 2) << fewer.output;
  EXPECT_THAT(fewer.output, AllOf(ContainsRegex("the tokens of a step +128 +64\n"),
                                  HasSubstr("With --micro-batches 2 on 1 rank a step has as many tokens as before.")));
  const Ending more = tiny("run", "--ranks 3 --steps 4");
  EXPECT_EQ(more.code, 2) << more.output;
  EXPECT_THAT(more.output, HasSubstr("No --micro-batches makes a step of"));
}

TEST_F(TrainResume, KeepsTheOptimizersStateAsItWas) {
  for (const std::string& state : {std::string("bf16"), std::string("8bit")}) {
    const std::string whole = "whole-" + state, broken = "run-" + state;
    const std::string job = "--ranks 2 --schedule constant --optimizer-state " + state;
    ASSERT_EQ(tiny(whole, job + " --steps 4").code, 0);
    const Ending first = tiny(broken, job + " --steps 2");
    ASSERT_EQ(first.code, 0) << first.output;
    EXPECT_THAT(first.output, HasSubstr("moments        kept in " + state + "\n"));
    const std::string named = " --checkpoint " + (folder_ / broken + "/step-2");
    for (const Ending& other : {tiny(broken, "--ranks 2 --schedule constant --steps 4"),
                                tiny("other-" + state, "--ranks 2 --schedule constant --steps 4" + named)}) {
      EXPECT_EQ(other.code, 2) << other.output;
      EXPECT_THAT(other.output, HasSubstr("keeps AdamW's moments in " + state +
                                          ", and --optimizer-state is fp32. Go on with --optimizer-state " + state));
    }
    ASSERT_EQ(run_train("--resume " + (folder_ / broken) + " --steps 4").code, 0);
    EXPECT_EQ(losses_of(folder_ / broken), losses_of(folder_ / whole));
  }
}

// Without the options that it began with.
TEST_F(TrainResume, GoesOnByTheNameOfItsRun) {
  const std::string more = "--ranks 2 --steps 4 --schedule constant --lr 0.01";
  ASSERT_EQ(tiny("whole", "--ranks 2 --steps 6 --schedule constant --lr 0.01").code, 0);
  ASSERT_EQ(tiny("run", more).code, 0);
  const Ending rest = run_train("--resume " + (folder_ / "run") + " --steps 6");
  EXPECT_EQ(rest.code, 0) << rest.output;
  EXPECT_THAT(rest.output, HasSubstr("goes on from " + (folder_ / "run/step-4")));
  EXPECT_EQ(losses_of(folder_ / "run"), losses_of(folder_ / "whole"));
}

// Whoever goes on with it later goes on from there, too, though nothing was saved since.
TEST_F(TrainResume, FromAnEarlierStepLeavesTheLaterOnes) {
  const std::string settings = "--ranks 1 --save-every 2 --schedule constant ";
  ASSERT_EQ(tiny("run", settings + "--steps 6").code, 0);
  const std::string run = folder_ / "run";
  {
    Job back(tiny_arguments("run", "--ranks 1 --save-every 100000 --schedule constant --steps 1000000 --resume " + run +
                                       "/step-2"),
             run, 7);
    back.end_by(SIGKILL, back.launcher());
  }
  EXPECT_TRUE(fs::exists(run + "/step-2"));
  for (const char* name : {"step-4", "step-6"}) {
    EXPECT_FALSE(fs::exists(run + "/" + name));
    EXPECT_TRUE(fs::exists(run + "/" + name + ".set-aside-1/manifest.json"));
  }
}

TEST_F(TrainResume, TakesAFreshFolderWhereNoneIsNamed) {
  const auto start = [&](const std::string& more) {
    std::string arguments = tiny_arguments("nowhere", "--steps 2 " + more);
    const std::string named = "--run " + (folder_ / "nowhere") + " ";
    arguments.erase(arguments.find(named), named.size());
    return run_command("sh -c 'cd " + folder_.path().string() + " && " FSDP_TRAIN_PROGRAM " " + arguments + "'");
  };
  for (const std::string& run : {std::string("run-1"), std::string("run-2")}) {
    const Ending ending = start(run == "run-1" ? "--ranks 2" : "--ranks 1");
    EXPECT_EQ(ending.code, 0) << ending.output;
    EXPECT_THAT(ending.output,
                AllOf(HasSubstr("\n  run            " + run + "\n"), HasSubstr("checkpoint: " + run + "/step-2\n")));
    EXPECT_EQ(losses_of(folder_ / run).size(), 2u);
  }
  EXPECT_EQ(start("--lr 0").code, 2);
  EXPECT_EQ(start("--dry-run").code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "run-3"));
  const Ending more =
      run_command("sh -c 'cd " + folder_.path().string() +
                  " && " FSDP_TRAIN_PROGRAM " --resume run-2 --steps 3 && " FSDP_TRAIN_PROGRAM " report run-2'");
  EXPECT_EQ(more.code, 0) << more.output;
  EXPECT_EQ(losses_of(folder_ / "run-2").size(), 3u);
  EXPECT_TRUE(fs::exists(folder_ / "run-2/report.html"));
}

TEST_F(TrainResume, MakesUpForAnExport) {
  ASSERT_EQ(tiny("run", "--ranks 2 --steps 2").code, 0);
  const Ending again = tiny("run", "--ranks 2 --steps 2 --export");
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("all 2 steps are done, and"));
  EXPECT_TRUE(fs::exists(folder_ / "run/model/model.safetensors"));
  EXPECT_TRUE(fs::exists(folder_ / "run/model/config.json"));
}

TEST_F(TrainResume, IsOneProcessAtATime) {
  const std::string lock = folder_.write("run/lock", "process 7 on earth");
  const int descriptor = open(lock.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(descriptor, LOCK_EX), 0);
  const Ending second = tiny("run", "--ranks 2 --steps 2");
  EXPECT_EQ(second.code, 2) << second.output;
  EXPECT_THAT(second.output, HasSubstr("run' is in use by process 7 on earth."));
  EXPECT_FALSE(fs::exists(folder_ / "run/metrics.jsonl"));
  close(descriptor);
  EXPECT_EQ(tiny("run", "--ranks 2 --steps 2").code, 0);
}

TEST_F(TrainResume, TracesUpToItsEnd) {
  const Ending ending = tiny("run", "--steps 50 --lr 1e-30 --validate-every 1 --patience 2 --trace-steps 2..40");
  EXPECT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(read_bytes(folder_ / "run/traces/steps-2-3.json"), HasSubstr("{"));
}

TEST_F(TrainResume, SaysWhereTheTimeWent) {
  const Ending ending = tiny("run", "--ranks 2 --steps 5");
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, AllOf(HasSubstr("ms  forward and backward "), HasSubstr("FLOP/s that all ranks reach")));
  for (const json& record : metrics_of(folder_ / "run")) {
    double sum = 0;
    for (const char* part : {"data_seconds", "forward_backward_seconds", "optimizer_seconds", "other_seconds"}) {
      EXPECT_GE(record[part], 0) << part;
      sum += record[part].get<double>();
    }
    EXPECT_NEAR(sum, record["step_seconds"], 1e-9);  // sums of times round
  }
}

// Each rank reads the command line by itself, and all have to have one folder.
TEST_F(TrainResume, TakesOneFreshFolderUnderTorchrun) {
  const std::string torchrun = FSDP_TORCHRUN;
  if (torchrun.empty()) FSDP_SKIP_TEST("this LibTorch comes without torchrun");
  const Ending ending = run_command("sh -c 'cd " + folder_.path().string() + " && " + torchrun +
                                    " --no-python --nproc-per-node 2 -- " FSDP_TRAIN_PROGRAM " --text " + text_ +
                                    " --context 16 --width 16 --heads 2 --steps 2 --sample-length 5'");
  EXPECT_EQ(ending.code, 0) << ending.output;
  EXPECT_EQ(losses_of(folder_ / "run-1").size(), 2u);
  EXPECT_FALSE(fs::exists(folder_ / "run-2"));
}

TEST_F(TrainResume, IsRefusedOnceUnderTorchrun) {
  const std::string torchrun = FSDP_TORCHRUN;
  if (torchrun.empty()) FSDP_SKIP_TEST("this LibTorch comes without torchrun");
  const Ending ending = run_command(torchrun + " --no-python --nproc-per-node 2 -- " FSDP_TRAIN_PROGRAM " " +
                                    tiny_arguments("run", "--steps 0"));
  EXPECT_NE(ending.code, 0);
  const std::string problem = "--steps is 0; it must be at least 1.";
  EXPECT_THAT(ending.output, HasSubstr(problem));
  EXPECT_EQ(ending.output.find(problem), ending.output.rfind(problem)) << ending.output;
  EXPECT_THAT(ending.output, Not(HasSubstr("2 problems")));
}

}  // namespace
