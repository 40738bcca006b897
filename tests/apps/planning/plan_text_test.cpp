// What a plan says: whether it fits, how long it takes, and what it rests on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "apps/columns.h"
#include "console/units.h"
#include "models/model_sizes.h"
#include "planning/assumed.h"
#include "planning/dry_run.h"
#include "planning/fit.h"
#include "planning/host_memory.h"
#include "planning/plan_text.h"
#include "planning/run_time.h"

namespace trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

RunPlan large_plan() {
  RunPlan plan;
  plan.options.model = *models::config_of_size("llama-8b");
  plan.options.model_options.model = "llama-8b";
  plan.options.ranks = 8;
  return plan;
}

// "79.4 TB needed".
std::string needed_text(const RunPlan& plan) { return plan_bytes(host_bytes(plan)) + " needed"; }

TEST(Fit, ComparesWithThisHost) {
  RunPlan plan = large_plan();
  plan.host = {.memory = 1.3 * host_bytes(plan), .cores = 16, .threads = 2};
  const std::string text = fit_text(plan);
  EXPECT_THAT(text, AllOf(HasSubstr("this host\n  memory              fits: " + needed_text(plan) + ", " +
                                    plan_bytes(*plan.host.memory) + " available\n"),
                          HasSubstr("  cores               fits: 8 ranks x 2 threads on 16 cores\n")));
  EXPECT_THAT(text, Not(HasSubstr("it would take")));
}

TEST(Fit, SaysWhereLittleIsSpared) {
  RunPlan plan = large_plan();
  plan.host.memory = 1.2 * host_bytes(plan);
  EXPECT_THAT(fit_text(plan), HasSubstr("barely fits: " + needed_text(plan)));
}

// The state of the ranks before the restart and the copy that the new ranks make are in memory at the same time.
TEST(Fit, CountsTheStateTwiceWhereARestartIsFromMemory) {
  RunPlan plan;  // of few activations: a step takes the state and the gradients
  plan.options.model = *models::config_of_size("gpt2");
  plan.options.model.context = 16;
  plan.options.batch = 1;
  plan.options.save_sync = true;
  const double of_steps = host_bytes(plan);
  plan.options.hot_restart = true;
  const auto parameters = static_cast<double>(models::parameter_numel(plan.options.model));
  EXPECT_GE(host_bytes(plan), 24 * parameters);
  EXPECT_LT(host_bytes(plan), 24.1 * parameters);
  EXPECT_LT(of_steps, 20 * parameters);
}

TEST(Fit, ComparesFilesWithTheDisk) {
  RunPlan plan = large_plan();
  plan.options.offload = "all";
  const double needed = host_bytes_in_files(plan);
  plan.host.disk = 2 * needed;
  EXPECT_TRUE(fits_on_disk(plan));
  EXPECT_THAT(fit_text(plan), HasSubstr("  disk                fits: "));
  plan.host.disk = needed / 2;
  EXPECT_FALSE(fits_on_disk(plan));
  EXPECT_THAT(fit_text(plan), AllOf(HasSubstr("  disk                does not fit: "), HasSubstr("for the files")));
  plan.options.offload = "none";
  EXPECT_TRUE(fits_on_disk(plan));
}

TEST(Fit, SaysWhatElseWould) {
  RunPlan plan = large_plan();
  plan.host = {.memory = 24.1e9, .cores = 2, .threads = 1};
  const std::string text = fit_text(plan);
  for (const char* part : {" needed, 24.1 GB available\n", "  it would take\n", "with --batch 1 --micro-batches 8\n",
                           "with --param-dtype bf16\n", "does not fit: 8 ranks x 1 thread share 2 cores\n"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(Fit, ComparesWithAnotherHostOfWhoseCoresNothingIsKnown) {
  RunPlan plan = large_plan();
  plan.host = {.memory = 1, .cores = 2};
  plan.options.memory = 640e12;
  const std::string text = fit_text(plan);
  EXPECT_THAT(text, HasSubstr("another host\n  memory              fits: " + needed_text(plan) + ", 640 TB given\n"));
  EXPECT_THAT(text, Not(HasSubstr("cores")));
}

TEST(Fit, AsksForTheMemoryOfAHostThatDoesNotTellIt) {
  EXPECT_THAT(fit_text(large_plan()), Not(HasSubstr("disk")));
  EXPECT_THAT(fit_text(large_plan()), HasSubstr(needed_text(large_plan()) + "; --memory says how much there is"));
}

TEST(RunTime, IsTheOperationsByTheRateThatIsExpected) {
  RunPlan plan = large_plan();
  plan.options.ranks = 8;
  EXPECT_DOUBLE_EQ(step_seconds(plan.options, 40e12), flops_of_step(plan.options) / (8 * 40e12 * kExpectedMfu));
  RunOptions other = plan.options;
  other.ranks = 16;  // each with as much to do
  EXPECT_DOUBLE_EQ(step_seconds(other, 40e12), step_seconds(plan.options, 40e12));
}

TEST(RunTime, SaysItsAssumptions) {
  RunPlan plan;
  plan.options.ranks = 2;
  plan.options.steps = 1000;
  EXPECT_THAT(time_text(plan), IsEmpty());  // nothing was measured
  plan.host.peak_flops = flops_of_step(plan.options) / (2 * kExpectedMfu * 12);
  EXPECT_THAT(time_text(plan),
              AllOf(HasSubstr("time, about\n  a step              12 s\n"),
                    HasSubstr("  the run             3 h 20 min, 1,000 steps\n"), HasSubstr("measured here")));
  plan.options.peak_flops = 6 * *plan.host.peak_flops;
  EXPECT_THAT(time_text(plan), AllOf(HasSubstr("  a step              2.0 s\n"), Not(HasSubstr("measured here"))));
}

TEST(RunTime, IsThatOfThePassesWhereTheyWereMeasured) {
  RunPlan plan;
  plan.options.micro_batches = 3;
  plan.options.model.layers = 4;
  plan.host.passes = {.layer = 0.5, .rest = 2, .update_of_parameter = 0};
  plan.host.peak_flops = 1e12;
  EXPECT_DOUBLE_EQ(step_seconds(plan.options, *plan.host.passes), 3 * (2 + 4 * 0.5));
  EXPECT_THAT(time_text(plan),
              AllOf(HasSubstr("a step              12 s\n"), HasSubstr("passes of 1 and of 2 layers")));
  plan.options.ranks = 2;
  plan.host.passes->update_of_parameter = 2 / static_cast<double>(models::parameter_numel(plan.options.model));
  EXPECT_DOUBLE_EQ(step_seconds(plan.options, *plan.host.passes), 12 + 1);
}

TEST(RunTime, OfEpochsOfUnknownDataIsThatOfAStep) {
  RunPlan plan;
  plan.options.epochs = 1;
  plan.options.peak_flops = 1e12;
  EXPECT_THAT(time_text(plan), AllOf(HasSubstr("a step"), Not(HasSubstr("the run"))));
  plan.windows = 100;
  EXPECT_THAT(time_text(plan), HasSubstr("the run"));
}

std::string assumed_of(const std::vector<std::string>& arguments) {
  const CommandLine line = parse_command_line(arguments);
  EXPECT_THAT(line.problems, IsEmpty());
  return assumed_text(line.options, line);
}

TEST(Assumed, NamesTheContextOfAModel) {
  EXPECT_THAT(assumed_of({"--dry-run", "--model", "llama-8b"}),
              HasSubstr("  context             131,072 tokens, the model's own; --context sets another\n"));
  EXPECT_THAT(assumed_of({"--dry-run", "--model", "llama-8b", "--context", "4k"}), Not(HasSubstr("context")));
  EXPECT_THAT(assumed_of({"--dry-run"}), AllOf(HasSubstr("  context             128 tokens; --context sets another\n"),
                                               HasSubstr("a small GPT-2; --model sets another\n")));
}

TEST(Assumed, NamesTheVocabularyThatATokenizerWouldDecide) {
  EXPECT_THAT(assumed_of({"--dry-run", "--tokenizer", "train:4096"}),
              HasSubstr("  vocabulary          256 tokens, for bytes; --vocabulary sets another\n"));
  EXPECT_THAT(assumed_of({"--dry-run", "--tokenizer", "train:4096", "--vocabulary", "4096"}),
              Not(HasSubstr("vocabulary")));
  EXPECT_THAT(assumed_of({"--dry-run"}), Not(HasSubstr("vocabulary")));
}

TEST(Assumed, NamesEachDefaultThatFiguresRestOn) {
  const std::string text = assumed_of({"--dry-run", "--model", "gpt2", "--ranks", "2"});
  for (const char* part : {"8 sequences per rank and micro-batch; --batch sets", "full-shard; --strategy sets",
                           "fp32; --param-dtype sets", "300; --steps sets"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("--ranks")));
  EXPECT_THAT(assumed_of({"--dry-run", "--model", "gpt2"}), AllOf(HasSubstr("--ranks"), Not(HasSubstr("--strategy"))));
  const CommandLine line = parse_command_line({"--dry-run"});
  RunOptions of_job = line.options;
  of_job.ranks = 2;  // as a launcher says
  EXPECT_THAT(assumed_text(of_job, line), Not(HasSubstr("--ranks")));
  EXPECT_THAT(assumed_of({"--dry-run", "--epochs", "1"}), Not(HasSubstr("--steps")));
  EXPECT_THAT(assumed_of({"--dry-run", "--model", "gpt2", "--context", "64", "--batch", "8", "--ranks", "1", "--steps",
                          "300", "--param-dtype", "fp32"}),
              IsEmpty());
}

RunPlan mesh_plan(int64_t data, int64_t pipeline, int64_t tensor) {
  RunPlan plan = large_plan();
  plan.options.ranks = data * pipeline * tensor;
  plan.options.pipeline_parallel = pipeline;
  plan.options.tensor_parallel = tensor;
  plan.options.micro_batches = 8;
  plan.options.param_dtype = "bf16";
  return plan;
}

TEST(DryRun, SaysWhereTheRanksOfAMeshLie) {
  RunPlan plan = mesh_plan(2, 2, 2);
  EXPECT_THAT(dry_run_text(plan), HasSubstr("mesh\n  ranks               2 x 2 x 2 ranks (data x pipeline x tensor)"));
  EXPECT_THAT(dry_run_text(plan), HasSubstr("  hosts               all ranks share a host\n"));
  plan.hosts = 4;
  EXPECT_THAT(dry_run_text(plan),
              HasSubstr("  hosts               tensor ranks share a host; the ranks of a pipeline lie on\n"
                        "                      2 hosts: 0, 1; data ranks lie on 2 hosts\n"));
}

TEST(DryRun, HasARowForEachStage) {
  const RunPlan plan = mesh_plan(2, 2, 2);
  const std::string text = dry_run_text(plan);
  for (const char* part : {"memory of a rank, at most     state buffers activations messages",
                           "\n  stage 0 (ranks 0-1, 4-5)", "\n  stage 1 (ranks 2-3, 6-7)",
                           "a rank receives per step    pipeline  tensor", "2 data ranks x 8 micro-batches"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("per rank at most")));
  EXPECT_THAT(memory_table(plan), HasSubstr("stage 1"));
}

// The first stage holds two micro-batches in flight, and the schedule with all forwards first holds eight.
TEST(DryRun, CountsTheMicroBatchesOfAStage) {
  const auto bytes_of = [](const char* schedule) {
    RunPlan plan = mesh_plan(1, 2, 1);
    plan.options.pipeline_schedule = schedule;
    return host_bytes(plan);
  };
  EXPECT_GT(bytes_of("all-forward-all-backward"), bytes_of("one-forward-one-backward"));
  EXPECT_GT(bytes_of("one-forward-one-backward"), bytes_of("one-at-a-time"));
}

TEST(DryRun, IsShortForManyStages) {
  const std::string text = dry_run_text(mesh_plan(1, 16, 1));
  EXPECT_THAT(text, AllOf(HasSubstr("\n  stage 3 (rank 3)"), Not(HasSubstr("\n  stage 8 (rank 8)")),
                          HasSubstr("\n  stage 15 (rank 15)"), HasSubstr("rows between\n")));
}

TEST(RunTime, CountsIdleRanks) {
  RunPlan plan = mesh_plan(1, 2, 1);
  plan.host.peak_flops = 1e12;
  plan.options.micro_batches = 1;
  const double of_work = step_seconds(plan.options, 1e12);
  EXPECT_THAT(time_text(plan), HasSubstr("a step              "));
  EXPECT_THAT(time_text(plan), Not(HasSubstr("a step              " + rough_duration(of_work))));
}

TEST(DryRun, HasAtMostEightyColumns) {
  RunPlan large = large_plan();
  large.host = {.memory = 24.1e9, .cores = 2, .process_bytes = 2e8, .peak_flops = 1e9};
  large.options.steps = 1'000'000'000;
  RunPlan hosts = large;
  hosts.options.ranks = 1024;
  hosts.hosts = 128;
  RunPlan mesh = mesh_plan(16, 8, 8);
  mesh.hosts = 128;
  RunPlan loops = mesh_plan(1, 4, 1);
  loops.options.pipeline_schedule = "interleaved";
  loops.options.stages_per_rank = 4;
  for (const RunPlan& plan : {RunPlan(), large, hosts, mesh, loops}) {
    std::istringstream lines(assumed_text(plan.options, CommandLine()) + dry_run_text(plan));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(columns(line), 80) << line;
  }
}

}  // namespace
}  // namespace trainer
