// The setting of --plan beside plans of all settings.
#include "planning/chosen_setting.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "options/configuration_file.h"
#include "options/plan_choice.h"
#include "planning/fit.h"
#include "planning/hardware_file.h"
#include "planning/plan_search.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr double kUnlimited = 1e15;

RunPlan small_run(double memory) {
  RunPlan here;
  here.options.model.layers = 2;
  here.options.model.width = 64;
  here.options.model.vocabulary = 512;
  here.options.ranks = 2;
  here.options.batch = 2;
  here.options.micro_batches = 3;
  here.host.memory = memory;
  here.host.process_bytes = 1e8;
  return here;
}

RunPlan with_choice(const RunPlan& here, const PlannedOptions& chosen) {
  RunPlan plan = here;
  plan.options = with_flags(here.options, chosen.flags);
  return plan;
}

double seconds_of(const RunOptions& options) {
  PlanTarget target{.hardware = hardware_of("cpu")};
  target.memory = kUnlimited;
  return plan_numbers(target, options).time.value().step;
}

double bytes_of(const RunPlan& plan) {
  PlanTarget target{.hardware = hardware_of("cpu"), .memory = kUnlimited};
  target.here = std::make_shared<const RunPlan>(plan);
  return plan_numbers(target, plan.options).host_bytes.value();
}

auto setting_of(const RunOptions& run) {
  return std::tuple(run.pipeline_parallel, run.pipeline_schedule, run.stages_per_rank, run.tensor_parallel,
                    run.sequence_parallel, run.strategy, run.shard_group_size, run.batch, run.micro_batches,
                    run.activation_checkpoint, run.prefetch, run.buffers);
}

// The fastest of the space with the given options, if it may take so much memory.
double least_seconds(const RunPlan& here) {
  double least = std::numeric_limits<double>::infinity();
  const std::set<std::string>& given = here.options.chosen.flags;
  for (const SearchSetting& setting : search_space({.hardware = hardware_of("cpu")}, here.options, {2})) {
    RunPlan plan = here;
    plan.options = setting.applied_to(here.options);
    if (given.contains("--batch") && setting.batch != here.options.batch) continue;
    if (fit(plan) != Fit::kNot) least = std::min(least, seconds_of(plan.options));
  }
  return least;
}

// Each limit is too low for the setting before.
TEST(ChosenSetting, IsTheFastestThatFits) {
  double memory = kUnlimited, last = 0;
  for (int limit = 0; limit < 3; ++limit) {
    const RunPlan here = small_run(memory);
    const RunPlan chosen = with_choice(here, chosen_setting(hardware_of("cpu"), here));
    const double seconds = seconds_of(chosen.options), bytes = bytes_of(chosen);
    EXPECT_EQ(chosen.options.tokens_per_step(), here.options.tokens_per_step());
    EXPECT_NEAR(seconds, least_seconds(here), 1e-12) << memory;
    EXPECT_LE(bytes, memory);
    EXPECT_GT(seconds, last) << memory;
    last = seconds;
    memory = 0.999 * bytes;
  }
}

TEST(ChosenSetting, LeavesOptionsThatAreGiven) {
  RunPlan here = small_run(kUnlimited);
  here.options.strategy = "shard-grad-op";
  here.options.activation_checkpoint = "all";
  here.options.chosen.flags = {"--strategy", "--activation-checkpoint", "--batch"};
  const PlannedOptions chosen = chosen_setting(hardware_of("cpu"), here);
  EXPECT_THAT(chosen.flags, AllOf(Not(HasSubstr("--strategy")), Not(HasSubstr("--activation-checkpoint")),
                                  Not(HasSubstr("--batch ")), HasSubstr("--micro-batches 3")));
  const RunPlan run = with_choice(here, chosen);
  EXPECT_EQ(run.options.strategy, "shard-grad-op");
  EXPECT_EQ(run.options.batch, 2);
  EXPECT_NEAR(seconds_of(run.options), least_seconds(here), 1e-12);
  here.options.chosen.flags.insert({"--micro-batches", "--layers-per-unit", "--prefetch", "--buffers"});
  EXPECT_THAT(chosen_setting(hardware_of("cpu"), here).flags, IsEmpty());
}

TEST(ChosenSetting, SaysWhatIsTooLarge) {
  RunPlan here = small_run(2e6);
  try {
    chosen_setting(hardware_of("cpu"), here);
    FAIL() << "nothing fits into 2 MB";
  } catch (const fsdp::Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("--plan: none of "), HasSubstr("The smallest is --strategy full-shard"),
                                    HasSubstr("--batch 1 --micro-batches 6 --activation-checkpoint all"),
                                    HasSubstr(" needed, 2.0 MB available\n  it would take\n")));
  }
  here.options.ignore_memory = true;
  EXPECT_EQ(chosen_setting(hardware_of("cpu"), here).flags,
            chosen_setting(hardware_of("cpu"), small_run(kUnlimited)).flags);
}

// With flags, a mesh and all else is the setting, and so it is after a run's folder has recorded it.
TEST(ChosenSetting, IsRecordedWhole) {
  TemporaryFolder folder;
  RunPlan here = small_run(kUnlimited);
  here.options.ranks = 8;
  here.options.run = folder / "run";
  std::set<std::string> flags;
  for (const SearchSetting& setting : search_space({.hardware = hardware_of("h100")}, here.options, {8})) {
    const std::string text = setting.text(here.options);
    const RunOptions run = with_flags(here.options, text), expected = setting.applied_to(here.options);
    ASSERT_EQ(setting_of(run), setting_of(expected)) << text;
    const bool has_new =
        std::ranges::any_of(run.chosen.flags, [&](const auto& flag) { return flags.insert(flag).second; });
    if (!has_new) continue;
    folder.write("run/config.toml", configuration_toml(run));
    EXPECT_EQ(recorded_flags(here.options), text);
  }
  EXPECT_THAT(flags,
              testing::IsSupersetOf({"--pipeline-parallel", "--sequence-parallel", "--stages-per-rank", "--prefetch"}));
}

TEST(ChosenSetting, IsNotKnownWithoutATime) {
  RunPlan here = small_run(kUnlimited);
  here.hosts = 2;
  EXPECT_THROW(chosen_setting(hardware_of("cpu"), here), fsdp::Error);
  here.hosts = 1;
  here.options.param_dtype = "fp16";
  try {
    chosen_setting(hardware_of("cpu"), here);
    FAIL() << "CPUs have no rates in fp16";
  } catch (const fsdp::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--plan: the time of such a run in fp16 is not known"));
  }
}

TEST(ChosenSetting, IsForTheDevicesAtHand) {
  EXPECT_EQ(machine_for_plan("auto", "").name, "cpu");
  EXPECT_EQ(machine_for_plan("auto", "NVIDIA H200").name, "h200");
  EXPECT_EQ(machine_for_plan("auto", "NVIDIA A100-SXM4-40GB").name, "a100-40");
  EXPECT_EQ(machine_for_plan("auto", "NVIDIA A100 80GB PCIe").name, "a100-80");
  EXPECT_EQ(machine_for_plan("auto", "GPU").name, "h100");
  EXPECT_EQ(machine_for_plan("a100-80", "GPU").name, "a100-80");
  EXPECT_THROW(machine_for_plan("h100", ""), fsdp::Error);
  EXPECT_THROW(machine_for_plan("cpu", "GPU"), fsdp::Error);
  RunOptions options;
  EXPECT_THAT(plan_problems(options), IsEmpty());
  options.plan = "h10";
  EXPECT_THAT(plan_problems(options), testing::ElementsAre(HasSubstr("did you mean h100?")));
}

// GPUs divide their memory evenly, and the mesh is free.
TEST(ChosenSetting, DividesAModelThatNoGpuHoldsAlone) {
  RunPlan here = small_run(2 * 0.9e9);
  here.host = {.on_gpus = true, .memory = 2 * 0.9e9};
  here.options.param_dtype = "bf16";
  here.options.model.width = 1024;
  here.options.model.heads = 16;
  here.options.model.layers = 4;
  here.options.batch = 2;
  here.options.micro_batches = 1;
  here.options.chosen.flags = {"--prefetch", "--buffers", "--activation-checkpoint"};
  const RunPlan chosen = with_choice(here, chosen_setting(hardware_of("h100"), here));
  PlanTarget target{.hardware = hardware_of("h100"), .memory = 0.9e9};
  EXPECT_LE(memory_of_plan(target, chosen.options).peak, target.memory);
  EXPECT_EQ(chosen.options.tokens_per_step(), here.options.tokens_per_step());
  RunOptions alone = here.options;
  alone.strategy = "no-shard";
  EXPECT_GT(memory_of_plan(target, alone).peak, target.memory);
}

}  // namespace
}  // namespace trainer
