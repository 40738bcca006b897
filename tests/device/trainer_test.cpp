// fsdp-train with the tests' device preloaded: it trains to its end with each of its options, reads nothing that lies
// on the device, and waits where it has to (FSDP_TEST_DEVICE_CHECK).
#include <fmt/format.h>
#include <fsdp/plan.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "apps/fsdp-train/train_program.h"
#include "planning/model_parts.h"
#include "planning/planned_activations.h"
#include "planning/planned_sharding.h"

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class TrainerOnDevice : public TrainProgram {
 protected:
  TrainerOnDevice() { setenv("FSDP_TEST_DEVICE_CHECK", (folder_ / "report").c_str(), 1); }

  // The losses of a training that has to succeed.
  std::vector<double> losses(const std::string& run, const std::string& more = "") const {
    const Ending ending = tiny(run, "--steps 4 " + more);
    EXPECT_EQ(ending.code, 0) << more << "\n" << ending.output;
    return losses_of(folder_ / run);
  }
  std::vector<double> losses_on_cpu(const std::string& more = "") const {
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    auto all = losses("cpu", more);
    unsetenv("CUDA_VISIBLE_DEVICES");
    return all;
  }
};

// The products and the sums of a loss have another order on a GPU than in the loops for the CPU.
void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance);
}

TEST_F(TrainerOnDevice, TrainsByDefault) {
  const Ending ending = tiny("default", "--steps 4");
  EXPECT_EQ(ending.code, 0) << ending.output;
  std::ifstream report(std::getenv("FSDP_TEST_DEVICE_CHECK"));
  std::string line;
  std::getline(report, line);
  EXPECT_THAT(line, MatchesRegex("[0-9]+ launches, [0-9]+ waits of the host, 0 missing waits"));
  expect_near(losses_of(folder_ / "default"), losses_on_cpu(), 1e-4);
}

// Of a whole run, with what comes before the first step.
int64_t host_waits_of(const std::string& report) {
  std::ifstream file(report);
  std::string launches, word;
  int64_t waits = -1;
  file >> launches >> word >> waits;
  return waits;
}

// For all its losses and the norm together. The measurement of the peak before the first step waits a few times more or
// less, depending on how fast the machine is.
TEST_F(TrainerOnDevice, WaitsForTheGpuOncePerStep) {
  for (const std::string more : {"", "--micro-batches 3 --param-dtype bf16 --clip 0.1"}) {
    std::vector<int64_t> waits;
    for (const std::string steps : {"4", "44"}) {
      const std::string run = "run" + steps + "-" + std::to_string(more.size()), report = folder_ / (run + ".report");
      setenv("FSDP_TEST_DEVICE_CHECK", report.c_str(), 1);
      EXPECT_EQ(tiny(run, "--no-save --validate-every 0 --steps " + steps + " " + more).code, 0);
      waits.push_back(host_waits_of(report));
    }
    EXPECT_NEAR(static_cast<double>(waits[1] - waits[0]), 40, 15) << more;
  }
}

TEST_F(TrainerOnDevice, ComparesThePlanWithTheMemoryOfTheGpu) {
  setenv("FSDP_TEST_DEVICE_MEMORY", "128000000", 1);
  const Ending ending = tiny("large", "--width 512 --layers 4 --heads 8");
  EXPECT_EQ(ending.code, 2);
  EXPECT_THAT(ending.output, AllOf(HasSubstr("memory of GPUs      does not fit: "), HasSubstr("128 MB available"),
                                   HasSubstr("the run needs more memory than the GPUs of this host have left for it")));
  EXPECT_THAT(ending.output, AllOf(HasSubstr("with --cpu-offload: fits\n"), Not(HasSubstr("--offload all"))));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "large"));
  EXPECT_EQ(tiny("offloaded", "--width 512 --layers 4 --heads 8 --cpu-offload --steps 1 --no-save").code, 0);
  unsetenv("FSDP_TEST_DEVICE_MEMORY");
  const Ending planned = run_train("--dry-run --width 32 --layers 2 --heads 2");
  EXPECT_THAT(planned.output, AllOf(HasSubstr("memory of GPUs      fits: "), HasSubstr("passes of 1 and of 2 layers")));
}

// A run of rank 0, of 1 or 2 ranks with a GPU each, beside its plan.
struct PlannedOnGpus {
  trainer::RunOptions options;
  std::string arguments;

  fsdp::plan::StateMemory state() const {
    return state_memory(trainer::parts_of(options).units, planned_sharding(options, 1, /*on_gpus=*/true)).front();
  }
  double activations() const { return planned_activations(options, /*on_gpus=*/true).in_memory; }
};

PlannedOnGpus planned_on_gpus(int64_t ranks, const char* strategy, const char* dtype, const char* recomputation) {
  PlannedOnGpus run;
  run.options.model = {.vocabulary = 256, .context = 32, .width = 64, .layers = 3, .heads = 2};
  run.options.ranks = ranks;
  run.options.batch = 2;
  run.options.no_save = true;
  run.options.strategy = strategy;
  run.options.param_dtype = dtype;
  run.options.activation_checkpoint = recomputation;
  run.arguments = fmt::format(
      "--context 32 --width 64 --layers 3 --heads 2 --batch 2 --steps 3 --no-save --ranks {} --strategy {} "
      "--param-dtype {} --activation-checkpoint {}",
      ranks, strategy, dtype, recomputation);
  return run;
}

// State and buffers to the byte, activations within a hundredth.
TEST_F(TrainerOnDevice, HoldsTheMemoryThatWasPlanned) {
  std::vector<PlannedOnGpus> runs = {planned_on_gpus(1, "full-shard", "fp32", "none"),
                                     planned_on_gpus(1, "full-shard", "bf16", "none"),
                                     planned_on_gpus(1, "full-shard", "fp32", "selective")};
  for (const char* strategy : trainer::kStrategies) runs.push_back(planned_on_gpus(2, strategy, "bf16", "all"));
  setenv("FSDP_TEST_DEVICES", "2", 1);
  for (size_t i = 0; i < runs.size(); ++i) {
    SCOPED_TRACE(runs[i].arguments);
    const std::string run = "run" + std::to_string(i);
    const Ending ending = run_command(FSDP_TRAIN_ON_DEVICE " " + tiny_arguments(run, runs[i].arguments));
    ASSERT_EQ(ending.code, 0) << ending.output;
    const nlohmann::json found = metrics_of(folder_ / run).back()["memory"];
    const fsdp::plan::StateMemory planned = runs[i].state();
    EXPECT_EQ(found["parameters"], planned.parameters);
    EXPECT_EQ(found["optimizer"], planned.optimizer);
    EXPECT_EQ(found["full parameters"], planned.full_parameters);
    EXPECT_EQ(found["full gradients"], planned.full_gradients);
    // One rank's own come while activations go.
    EXPECT_EQ(found["gradients"], runs[i].options.ranks == 1 ? 0 : planned.gradients);
    EXPECT_NEAR(found["activations"], runs[i].activations(), 0.01 * runs[i].activations());
  }
  unsetenv("FSDP_TEST_DEVICES");
}

TEST_F(TrainerOnDevice, HasTheSameBitsHoweverItSavesMemory) {
  const auto expected = losses("plain");
  ASSERT_EQ(expected.size(), 4u);
  EXPECT_EQ(losses("all", "--activation-checkpoint all"), expected);
  EXPECT_EQ(losses("selective", "--activation-checkpoint selective"), expected);
  EXPECT_EQ(losses("budget", "--activation-memory 60kB"), expected);
  EXPECT_EQ(losses("offload", "--offload-activations"), expected);
  EXPECT_EQ(losses("ignore", "--ignore-memory --no-save"), expected);
}

TEST_F(TrainerOnDevice, HasTheSameBitsOnAnyNumberOfRanks) {
  const auto expected = losses("one", "--micro-batches 2");
  EXPECT_EQ(losses("two", "--ranks 2"), expected);
  EXPECT_EQ(losses("grad-op", "--ranks 2 --strategy shard-grad-op --activation-checkpoint 1"), expected);
}

// Gloo is in NCCL's place, and the ranks' gathers and reductions are on streams.
TEST_F(TrainerOnDevice, HasTheSameBitsOnRanksWithAGpuEach) {
  const auto expected = losses("one", "--micro-batches 2");
  setenv("FSDP_TEST_DEVICES", "2", 1);
  for (const std::string more : {"", " --activation-checkpoint all", " --strategy no-shard", " --cpu-offload"}) {
    const std::string run = "nccl" + std::to_string(more.size());
    const Ending ending = run_command(FSDP_TRAIN_ON_DEVICE " " + tiny_arguments(run, "--steps 4 --ranks 2" + more));
    EXPECT_EQ(ending.code, 0) << more << "\n" << ending.output;
    EXPECT_EQ(losses_of(folder_ / run), expected) << more;
  }
  unsetenv("FSDP_TEST_DEVICES");
}

TEST_F(TrainerOnDevice, TrainsInSixteenBits) {
  expect_near(losses("bf16", "--param-dtype bf16"), losses_on_cpu("--param-dtype bf16"), 1e-2);
  for (const std::string more :
       {"--param-dtype fp16", "--param-dtype bf16 --reduce-dtype bf16 --ranks 2", "--optimizer-state bf16 --clip 0.1"})
    EXPECT_EQ(losses("run" + std::to_string(more.size()), more).size(), 4u);
}

TEST_F(TrainerOnDevice, GoesOnFromACheckpointWithTheSameBits) {
  const auto expected = losses("straight", "--save-every 2");
  EXPECT_EQ(losses("copied", "--resume never --save-every 2"), expected);
  const Ending ending =
      run_train("--resume " + (folder_ / "straight") + "/step-2 --run " + (folder_ / "resumed") + " --threads 1");
  EXPECT_EQ(ending.code, 0) << ending.output;
  EXPECT_EQ(losses_of(folder_ / "resumed"), (std::vector<double>{expected[2], expected[3]}));
}

TEST_F(TrainerOnDevice, EvaluatesSamplesAndExports) {
  losses("run", "--validate-every 2 --sample-every 2 --export --trace-steps 2..3 --dropout 0.1");
  EXPECT_GT(evaluated("--run " + (folder_ / "run"))["validation_loss"], 0);
  const Ending sample = run_train("sample --checkpoint " + (folder_ / "run") + " --sample-length 10 --prompt word");
  EXPECT_EQ(sample.code, 0) << sample.output;
}

TEST_F(TrainerOnDevice, TrainsWithOtherOptimizersAndParts) {
  for (const std::string more : {"--optimizer muon", "--lora 2", "--freeze transformer.wte", "--schedule wsd"})
    EXPECT_EQ(losses("run" + std::to_string(more.size()), more).size(), 4u) << more;
  const Ending planned = run_train("--dry-run --width 16 --layers 2 --heads 2");
  EXPECT_EQ(planned.code, 0) << planned.output;
}

}  // namespace
