// Runs that choose their own options: to the bit the runs with these options spelled out, also if they go on.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <regex>
#include <sstream>

#include "apps/fsdp-train/train_job.h"
#include "apps/fsdp-train/train_program.h"

namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class TrainPlan : public TrainProgram {
 protected:
  // With a step that the plan is free to divide.
  std::string arguments(const std::string& run, const std::string& more) const {
    const std::string ranks = more.find("--ranks ") == std::string::npos ? "--ranks 2 " : "", batch = "--batch 2 ";
    std::string text = tiny_arguments(run, ranks + "--export " + more);
    if (const size_t place = text.find(batch); place != std::string::npos) text.erase(place, batch.size());
    return text;
  }
  Ending train(const std::string& run, const std::string& more) const { return run_train(arguments(run, more)); }

  // The chosen flags of the settings table, or of a dry run.
  static std::string flags_in(const std::string& output) {
    static const std::regex row("(\n  planned  |\nplanned\n  options  )([^.]*?) (a step of|before:)");
    std::smatch found;
    EXPECT_TRUE(std::regex_search(output, found, row)) << output;
    std::istringstream words(found[2]);
    std::string flags;
    for (std::string word; words >> word;) flags += word + " ";
    return flags;
  }

  // A machine whose rates of matrix products fall, or grow, with their size: it wants the smallest micro-batches, or
  // the largest.
  std::string machine(const std::string& name, bool grows) const {
    const std::string text = read_bytes(FSDP_MEASURED_CPU);
    const std::regex products("products = .*");
    const char* rates = grows ? "products = { sizes = [10, 100], rates = [1e6, 1e12] }"
                              : "products = { sizes = [10, 100], rates = [1e12, 1e6] }";
    return folder_.write(name, std::regex_replace(text, products, rates));
  }

  std::string weights_of(const std::string& run) const {
    return read_bytes(folder_ / (run + "/model/model.safetensors"));
  }
  void expect_alike(const std::string& run, const std::string& other) const {
    EXPECT_EQ(losses_of(folder_ / run), losses_of(folder_ / other));
    EXPECT_EQ(weights_of(run), weights_of(other));
    EXPECT_FALSE(weights_of(run).empty());
  }
};

TEST_F(TrainPlan, EndsInTheBitsOfItsOptionsSpelledOut) {
  const std::string step = "--tokens-per-step 512 --steps 6 --validate-every 3 ";
  const Ending planned = train("planned", step + "--plan auto");
  ASSERT_EQ(planned.code, 0) << planned.output;
  EXPECT_THAT(flags_in(planned.output), ContainsRegex("^--strategy [a-z-]+ --batch [0-9]+ --micro-batches [0-9]+ "));
  EXPECT_THAT(planned.output, AllOf(HasSubstr("a step of "), HasSubstr(" of tensors per rank;"),
                                    HasSubstr("simulated with the rates of 'cpu'\n"), HasSubstr("= 512 tokens\n")));
  const Ending spelled = train("spelled", "--steps 6 --validate-every 3 " + flags_in(planned.output));
  ASSERT_EQ(spelled.code, 0) << spelled.output;
  EXPECT_THAT(spelled.output, Not(HasSubstr("\n  planned  ")));
  expect_alike("planned", "spelled");
}

TEST_F(TrainPlan, LeavesOptionsThatAreGiven) {
  const Ending ending =
      train("run", "--steps 2 --strategy shard-grad-op --batch 4 --micro-batches 2 --layers-per-unit 1 --plan auto");
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, AllOf(HasSubstr("2 ranks x 2 micro-batches x 4 sequences"), HasSubstr("shard-grad-op\n")));
  EXPECT_EQ(flags_in(ending.output), "--activation-checkpoint none ");
}

// The other machine would choose other options, as would one rank.
TEST_F(TrainPlan, KeepsItsChoiceWhereARunGoesOn) {
  const std::string step = "--tokens-per-step 512 --lr 0.001 --schedule constant ";
  const std::string small = " --plan " + machine("small.toml", false), large = " --plan " + machine("large.toml", true);
  const Ending whole = train("whole", step + "--steps 4" + small), other = train("other", step + "--steps 4" + large);
  ASSERT_EQ(whole.code + other.code, 0) << whole.output << other.output;
  EXPECT_THAT(flags_in(whole.output), HasSubstr("--batch 1 --micro-batches 16 "));
  EXPECT_THAT(flags_in(other.output), HasSubstr("--batch 16 --micro-batches 1 "));
  EXPECT_NE(weights_of("whole"), weights_of("other"));

  ASSERT_EQ(train("again", step + "--steps 2" + small).code, 0);
  std::filesystem::copy(folder_ / "again", folder_ / "resumed", std::filesystem::copy_options::recursive);
  const Ending again = train("again", step + "--steps 4 --ranks 1" + large);
  ASSERT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("before: a run that goes on keeps its options\n"));
  EXPECT_THAT(flags_in(again.output), AllOf(HasSubstr("--batch 1 "), HasSubstr("--micro-batches 32 ")));
  expect_alike("again", "whole");

  const Ending resumed = run_train("--resume " + (folder_ / "resumed") + " --steps 4" + large);
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  expect_alike("resumed", "whole");
}

TEST_F(TrainPlan, KeepsItsChoiceAfterAKill) {
  const std::string more = "--tokens-per-step 512 --steps 60 --save-every 5 --keep 2 --plan ";
  ASSERT_EQ(train("whole", more + machine("whole.toml", false)).code, 0);
  const std::string file = machine("machine.toml", false);
  Job job(arguments("killed", more + file + " --max-restarts 1"), folder_ / "killed", 12);
  machine("machine.toml", true);
  const Ending ending = job.end_by(SIGKILL, job.rank(1));
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, HasSubstr("(restart 1)"));
  expect_alike("killed", "whole");
}

TEST_F(TrainPlan, IsRefusedWhereNothingFits) {
  const Ending ending = run_command("ulimit -v 12000000; " FSDP_TRAIN_PROGRAM " " +
                                    arguments("large", "--vocabulary 16777216 --width 512 --heads 4 --plan auto"));
  EXPECT_EQ(ending.code, 2) << ending.output;
  EXPECT_THAT(ending.output, AllOf(HasSubstr("--plan: none of "), HasSubstr("The smallest is --strategy "),
                                   HasSubstr("  it would take\n")));
  EXPECT_EQ(ending.output.find("--plan: none"), ending.output.rfind("--plan: none")) << ending.output;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "large"));
}

TEST_F(TrainPlan, IsShownByADryRun) {
  const std::string run = "--dry-run --model gpt2 --ranks 2 --peak-flops 1T --plan auto ";
  const Ending ending = run_train(run + "--memory 12GB");
  ASSERT_EQ(ending.code, 0) << ending.output;
  EXPECT_THAT(ending.output, AllOf(HasSubstr("planned\n  options             --"), HasSubstr("fits: ")));
  EXPECT_THAT(ending.output, Not(HasSubstr("--batch sets another")));
  const Ending spelled =
      run_train("--dry-run --model gpt2 --ranks 2 --peak-flops 1T --memory 12GB " + flags_in(ending.output));
  const auto memory = [](const std::string& text) {
    const size_t begin = text.find("memory   ");
    return text.substr(begin, text.find("  program and LibTorch") - begin);  // which is measured
  };
  EXPECT_EQ(memory(ending.output), memory(spelled.output));
  const Ending none = run_train(run + "--memory 1GB");
  EXPECT_EQ(none.code, 2) << none.output;
  EXPECT_THAT(none.output, HasSubstr("1.0 GB given\n  it would take\n"));
}

TEST_F(TrainPlan, TakesNoOtherMachine) {
  const Ending unknown = train("run", "--plan h10");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.output, HasSubstr("--plan: hardware 'h10' is neither a file nor one of"));
  const Ending gpus = train("run", "--plan h100");
  EXPECT_EQ(gpus.code, 2);
  EXPECT_THAT(gpus.output, HasSubstr("--plan: hardware 'h100' has GPUs, and the ranks compute on CPUs."));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

}  // namespace
