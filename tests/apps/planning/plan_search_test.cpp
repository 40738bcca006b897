// Searches beside trials of all settings.
#include "planning/plan_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "models/model_sizes.h"
#include "planning/hardware_file.h"
#include "planning/least_time.h"

namespace trainer {
namespace {

// Strategies, micro-batches, meshes and schedules are free.
RunOptions searched_options(int64_t ranks) {
  RunOptions options;
  options.model = models::config_of_size("gpt2").value();
  options.model.layers = 4;
  options.model.vocabulary = 50'304;
  options.model.context = 512;
  options.ranks = ranks;
  options.batch = 2;
  options.param_dtype = "bf16";
  options.dry_run = true;
  options.chosen.flags = {"--prefetch", "--buffers", "--shard-group-size"};
  return options;
}

PlanTarget searched_target() {
  PlanTarget target{.hardware = hardware_of("h100")};
  target.hardware.ranks_per_host = 2;
  target.hardware.kernel_seconds = 0;
  target.memory = 1.2e9;  // enough for about half of the settings
  return target;
}

TEST(PlanSearches, FindTheBestOfAllSettings) {
  for (const SearchGoal goal : {SearchGoal::Time, SearchGoal::Money}) {
    const PlanTarget target = searched_target();
    const RunOptions options = searched_options(4);
    const std::vector<int64_t> ranks = {2, 4};
    const SearchResult all = search(target, options, {.ranks = ranks, .goal = goal, .kept = 0, .kept_too_large = 0});
    const SearchResult best = search(target, options, {.ranks = ranks, .goal = goal, .kept = 5});
    EXPECT_EQ(all.settings, all.fitting.size() + all.unfit);
    EXPECT_GT(all.unfit, 0u);
    ASSERT_EQ(best.fitting.size(), 5u);
    EXPECT_GT(best.left_out, 5u);
    for (size_t i = 0; i < best.fitting.size(); ++i) {
      EXPECT_EQ(best.fitting[i].options, all.fitting[i].options) << i;
      EXPECT_EQ(best.fitting[i].numbers.time->step, all.fitting[i].numbers.time->step) << i;
    }
    for (const TriedSetting& tried : all.fitting) {
      EXPECT_LE(tried.numbers.memory.peak, target.memory) << tried.options;
      LeastTimes least(target, options);
      EXPECT_LE(least.seconds(tried.setting), tried.numbers.time->step * (1 + 1e-6)) << tried.options;
    }
    for (const TriedSetting& tried : all.too_large) EXPECT_GT(tried.numbers.memory.peak, target.memory);
  }
}

TEST(PlanSearches, KeepTheTokensOfAStepAndTheOptionsThatAreGiven) {
  RunOptions options = searched_options(8);
  const std::vector<SearchSetting> all = search_space(searched_target(), options, {8, 16});
  std::set<int64_t> tensors, pipelines;
  std::set<std::string> schedules, texts;
  for (const SearchSetting& setting : all) {
    const RunOptions run = setting.applied_to(options);
    EXPECT_EQ(run.tokens_per_step(), options.tokens_per_step()) << setting.text(options);
    EXPECT_TRUE(texts.insert(setting.text(options)).second) << setting.text(options);
    tensors.insert(setting.tensor);
    pipelines.insert(setting.pipeline);
    schedules.insert(setting.schedule);
  }
  EXPECT_EQ(tensors, (std::set<int64_t>{1, 2}));  // as many as a host has
  EXPECT_EQ(pipelines, (std::set<int64_t>{1, 2, 4}));
  EXPECT_EQ(schedules, (std::set<std::string>{"one-forward-one-backward", "interleaved", "zero-bubble"}));
  options.strategy = "shard-grad-op";
  options.chosen.flags.insert({"--strategy", "--tensor-parallel", "--activation-checkpoint"});
  for (const SearchSetting& setting : search_space(searched_target(), options, {8})) {
    EXPECT_EQ(setting.strategy, "shard-grad-op");
    EXPECT_EQ(setting.tensor, 1);
    EXPECT_EQ(setting.recomputation, "none");
  }
}

TEST(PlanSearches, SayWhyASettingLoses) {
  const auto tried = [](double compute, double communication, double idle) {
    TriedSetting one;
    one.setting.pipeline = 2;
    one.numbers.time = PlannedTime{.step = compute + communication + idle,
                                   .compute = compute,
                                   .exposed_communication = communication,
                                   .idle = idle};
    return one;
  };
  const TriedSetting best = tried(1, 0.5, 0.5);
  EXPECT_EQ(why_worse(tried(1, 0.5, 0.7), best, SearchGoal::Time),
            "10.0 % slower: 200.0 ms more waits for other stages.");
  EXPECT_EQ(why_worse(tried(1, 0.6, 0.5), best, SearchGoal::Time),
            "5.0 % slower: 100.0 ms more exposed communication.");
  EXPECT_EQ(why_worse(tried(1, 0.5, 0.5), best, SearchGoal::Time), "As fast, with as much memory.");
  TriedSetting larger = best;
  larger.numbers.memory.peak = 2e6;
  EXPECT_EQ(why_worse(larger, best, SearchGoal::Time), "As fast, and 2.0 MB more memory.");
  TriedSetting many = best;
  many.setting.ranks = 2;
  EXPECT_EQ(why_worse(many, best, SearchGoal::Money), "100.0 % dearer: a step of 2 s on 2 ranks, not 2 s on 1.");
}

}  // namespace
}  // namespace trainer
