// The limits of a plan: the plan fits there, and no further.
#include "planning/plan_limits.h"

#include <gtest/gtest.h>

#include "models/model_sizes.h"
#include "planning/hardware_file.h"
#include "planning/plan_numbers.h"

namespace trainer {
namespace {

PlanTarget limited_target() {
  PlanTarget target{.hardware = hardware_of("h100"), .hosts = 2};
  target.memory = target.hardware.memory;
  return target;
}

RunOptions limited_options(int64_t pipeline, int64_t tensor) {
  RunOptions options;
  options.model = models::config_of_size("llama2-7b").value();
  options.ranks = 16;
  options.pipeline_parallel = pipeline;
  options.tensor_parallel = tensor;
  options.batch = 1;
  options.micro_batches = 4;
  options.param_dtype = "bf16";
  options.strategy = "shard-grad-op";
  return options;
}

TEST(PlanLimits, AreTheLastThatFit) {
  for (const auto& [pipeline, tensor] : {std::pair<int64_t, int64_t>{1, 1}, {2, 2}}) {
    const PlanTarget target = limited_target();
    const RunOptions options = limited_options(pipeline, tensor);
    const PlanLimits limits = plan_limits(target, options).value();
    const auto fits = [&](int64_t batch, int64_t tokens) {
      RunOptions changed = options;
      changed.batch = batch;
      changed.model.context = tokens;
      return memory_of_plan(target, changed).peak <= target.memory;
    };
    const int64_t batch = limits.largest_batch.value(), tokens = limits.longest_sequence.value();
    EXPECT_TRUE(fits(batch, options.model.context) && !fits(batch + 1, options.model.context)) << batch;
    EXPECT_TRUE(fits(1, tokens) && !fits(1, tokens + 1)) << tokens;
  }
}

TEST(PlanLimits, NameTheFewestRanks) {
  PlanTarget target = limited_target();
  target.hardware.dollars_per_hour = 2.5;
  const CheapestSetting found = plan_limits(target, limited_options(1, 1)).value().cheapest.value();
  EXPECT_EQ(found.options.substr(0, found.options.find(" --", 1)), "--ranks " + std::to_string(found.ranks));
  EXPECT_EQ(found.dollars_per_hour, 2.5 * static_cast<double>(found.ranks));
  RunOptions fewer = limited_options(1, 1);
  fewer.strategy = "full-shard";
  fewer.activation_checkpoint = "all";
  fewer.ranks = found.ranks / 2;
  target.hosts = 1;
  ASSERT_GT(fewer.ranks, 0);
  EXPECT_GT(memory_of_plan(target, fewer).peak, target.memory);
}

// Each rank beside the others takes memory of the host.
TEST(PlanLimits, OfCpusCountAllRanksOfTheHost) {
  PlanTarget target{.hardware = hardware_of(FSDP_MEASURED_CPU)};
  target.memory = target.hardware.memory;
  RunOptions options;
  options.model = models::config_of_size("gpt2").value();
  options.ranks = 2;
  const PlanLimits of_two = plan_limits(target, options).value();
  options.ranks = 1;
  const PlanLimits of_one = plan_limits(target, options).value();
  EXPECT_LT(of_two.largest_batch.value(), of_one.largest_batch.value());
  EXPECT_EQ(of_two.cheapest.value().ranks, 1);
}

TEST(PlanLimits, AreEmptyIfNothingFits) {
  PlanTarget target = limited_target();
  target.memory = 1e6;
  const PlanLimits limits = plan_limits(target, limited_options(1, 1)).value();
  EXPECT_FALSE(limits.largest_batch || limits.longest_sequence || limits.cheapest);
  EXPECT_TRUE(limits_json(limits).at("cheapest").is_null());
}

}  // namespace
}  // namespace trainer
