// Runs that are only planned: whether they fit, here or elsewhere, how long they take, and what was assumed.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "apps/columns.h"
#include "apps/fsdp-train/train_program.h"
#include "support/required.h"

namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class TrainDryRun : public TrainProgram {
 protected:
  // What the program says, from an empty folder, in lines that a terminal of 80 columns shows whole.
  static std::string planned(const std::string& arguments) {
    const Ending ending = run_train("--dry-run " + arguments);
    EXPECT_EQ(ending.code, 0) << ending.output;
    std::istringstream lines(ending.output);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(columns(line), 80) << line;
    return ending.output;
  }
};

TEST_F(TrainDryRun, FitsIntoThisMachine) {
  const std::string text = planned("--layers 1 --width 16 --heads 2 --context 16 --batch 1");
  EXPECT_THAT(text, ContainsRegex("this host\n  memory +fits: [0-9.]+ MB needed, [0-9.]+ [MGT]B available\n"));
  EXPECT_THAT(text, ContainsRegex("  cores +fits: 1 rank x [0-9]+ threads? on [0-9]+ cores?\n"));
  EXPECT_THAT(text, ContainsRegex("time, about\n  a step +[0-9.]+ m?s\n  the run +[0-9.]+ m?s"));
  EXPECT_THAT(text, HasSubstr("FLOP/s per rank, measured here"));
  EXPECT_THAT(text, Not(HasSubstr("it would take")));
}

// The number before the unit in the first column of the line that begins so, in bytes.
double bytes_in(const std::string& text, const std::string& line) {
  std::istringstream words(text.substr(text.find("  " + line) + 2 + line.size()));
  double number = 0;
  std::string unit;
  words >> number >> unit;
  const std::map<std::string, double> units{{"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}};
  return number * units.at(unit);
}

// An estimate, which leaves out what kernels compute in.
constexpr double kOfKernels = 2e5;
TEST_F(TrainDryRun, KnowsTheOtherTensorsOfARun) {
  // A plan does not know the text: its validation has as many windows at once as are asked for.
  const std::string model =
      "--context 128 --batch 4 --threads 1 --ranks 2 --steps 4 --validate-every 0 --validation-windows 4 ";
  for (const std::string size : {"--layers 3 --width 128 ", "--model llama-mini --layers 2 --width 96 --heads 6 "}) {
    for (const std::string more : {"", "--param-dtype bf16", "--activation-checkpoint all", "--offload-activations"}) {
      SCOPED_TRACE(size + more);
      fs::remove_all(folder_ / "run");
      const std::string arguments = "--text " + text_ + " --run " + (folder_ / "run") + " " + model + size + more;
      const Ending run = run_train("--no-save " + arguments);
      ASSERT_EQ(run.code, 0) << run.output;
      double found = 0;  // in the last step, which validates, or before
      for (const nlohmann::json& step : metrics_of(folder_ / "run")) {
        if (step.contains("memory")) found = std::max(found, step["memory"]["other tensors"].get<double>());
      }
      EXPECT_NEAR(bytes_in(planned("--peak-flops 1T " + arguments), "other tensors, about"), found,
                  0.15 * found + kOfKernels);
    }
  }
}

// Its passes are larger than these micro-batches.
TEST_F(TrainDryRun, KnowsThatAValidationTakesMoreThanAStep) {
  const std::string arguments =
      "--text " + text_ + " --run " + (folder_ / "run") +
      " --context 128 --batch 1 --threads 1 --ranks 2 --steps 4 --validate-every 0 --layers 3 "
      "--width 128 --activation-checkpoint all";
  const Ending run = run_train("--no-save " + arguments);
  ASSERT_EQ(run.code, 0) << run.output;
  std::vector<double> found;  // by step; the last one validates
  for (const nlohmann::json& step : metrics_of(folder_ / "run")) {
    if (!step.contains("memory")) continue;
    found.push_back(step["memory"]["other tensors"].get<double>() + step["memory"]["activations"].get<double>());
  }
  ASSERT_EQ(found.size(), 4u);
  EXPECT_GT(found[3], 1.5 * found[2]);
  const std::string text = planned("--peak-flops 1T " + arguments);
  EXPECT_NEAR(bytes_in(text, "activations") + bytes_in(text, "other tensors, about"), found[3],
              0.15 * found[3] + kOfKernels);
}

TEST_F(TrainDryRun, SaysWhatABudgetOfActivationsComesTo) {
  const std::string job = "--model gpt2 --ranks 2 --memory 64GB --peak-flops 1T ";
  const std::string text = planned(job + "--activation-memory 2GB");
  EXPECT_THAT(text, ContainsRegex("  activations +(1\\.[0-9]+|2\\.00) GB"));
  EXPECT_THAT(text, ContainsRegex("  recomputation +activations take (1\\.[0-9]+|2\\.00) GB at most: "));
  EXPECT_THAT(planned(job + "--activation-memory 1MB"),
              HasSubstr("recomputation       1.0 MB are less than the least, 680 MB:"));
  EXPECT_THAT(planned(job), Not(HasSubstr("recomputation")));
}

TEST_F(TrainDryRun, DoesNotFitAndSaysWhatWould) {
  const std::string text = planned("--model llama-8b --ranks 8 --memory 64GB --peak-flops 40T");
  for (const char* part : {"context             131,072 tokens, the model's own; --context sets another",
                           "another host\n  memory              does not fit: ", " TB needed, 64.0 GB given\n",
                           "it would take\n", "with --activation-checkpoint all\n",
                           "with --batch 1 --micro-batches 8\n", "of 40.0 TFLOP/s per rank, given"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, HasSubstr(": fits\n"));
}

// A flag that the program advises does what it said.
TEST_F(TrainDryRun, AdvisesFlagsThatFit) {
  const std::string arguments = "--model gpt2 --ranks 2 --peak-flops 1T --memory 10GB";
  const std::string text = planned(arguments);
  EXPECT_THAT(text, AllOf(HasSubstr("does not fit"), HasSubstr("with --batch 4 --micro-batches 2: fits\n")));
  EXPECT_THAT(planned(arguments + " --batch 4 --micro-batches 2"),
              AllOf(ContainsRegex("  memory              (barely )?fits: "), Not(HasSubstr("does not fit"))));
}

TEST_F(TrainDryRun, PlansAMeshOnSeveralHosts) {
  const std::string job =
      "--model gpt2 --ranks 8 --pipeline-parallel 2 --tensor-parallel 2 --memory 64GB --peak-flops 1T";
  EXPECT_THAT(planned(job + " --hosts 2"),
              AllOf(HasSubstr("tensor ranks share a host"), HasSubstr("data ranks lie on 2 hosts"),
                    ContainsRegex("\n  stage 1 \\(ranks 2-3, 6-7\\) +[0-9.]+ [GM]B"), HasSubstr("fits: ")));
  EXPECT_THAT(planned(job), HasSubstr("all ranks share a host"));
  EXPECT_THAT(run_train("--dry-run --hosts 3 " + job).output, HasSubstr("--hosts 3 does not divide --ranks 8"));
  EXPECT_THAT(run_train("--text a --hosts 2 " + job).output, HasSubstr("--hosts is given without --dry-run"));
}

TEST_F(TrainDryRun, TakesNumbersAsPeopleWriteThem) {
  const std::string tiny = "--width 16 --heads 2 --peak-flops ";
  for (const char* memory : {"64GB", "64G", "64_000M", "0.064TB", "6.4e10"}) {
    EXPECT_THAT(planned(tiny + "3T --memory " + memory), HasSubstr(", 64.0 GB given\n")) << memory;
  }
  EXPECT_THAT(planned(tiny + "1_500M --memory 64GiB"),
              AllOf(HasSubstr(", 68.7 GB given\n"), HasSubstr("of 1.5 GFLOP/s per rank, given")));
}

TEST_F(TrainDryRun, RefusesOtherNumbers) {
  const Ending wrong = run_train("--dry-run --memory lots --peak-flops 0");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.output, AllOf(HasSubstr("--memory: 'lots' is not a number."),
                                  HasSubstr("--peak-flops is 0; it must be a number above 0.")));
  const Ending without = tiny("run", "--memory 64GB --peak-flops 3T");
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.output, AllOf(HasSubstr("--memory is given without --dry-run"),
                                    HasSubstr("--peak-flops is given without --dry-run")));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(TrainDryRun, AssumesNothingOfARunThatGoesOn) {
  ASSERT_EQ(tiny("run", "--steps 2").code, 0);
  EXPECT_THAT(planned("--peak-flops 1T --resume " + (folder_ / "run")), Not(HasSubstr("not given")));
}

TEST_F(TrainDryRun, OfMoreRanksThanCoresMeasuresNoMoreThanThere) {
  const std::string text = planned("--ranks 1024 --width 16 --heads 2 --layers 1");
  EXPECT_THAT(text, ContainsRegex("cores +does not fit: 1,024 ranks x 1 thread share [0-9]+ cores?"));
  EXPECT_THAT(text, HasSubstr("measured here"));
}

TEST_F(TrainDryRun, SpeaksOnceOfTheRanksOfALauncher) {
  const std::string torchrun = FSDP_TORCHRUN;
  if (torchrun.empty()) FSDP_SKIP_TEST("this LibTorch comes without torchrun");
  const Ending ending = run_command(torchrun + " --no-python --nproc-per-node 2 -- " FSDP_TRAIN_PROGRAM
                                               " --dry-run --width 16 --heads 2 --layers 1");
  EXPECT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, AllOf(HasSubstr("2 ranks x 1 micro-batch x"), Not(HasSubstr("--ranks sets another"))));
  EXPECT_EQ(ending.output.find("A dry run:"), ending.output.rfind("A dry run:")) << ending.output;
}

}  // namespace
