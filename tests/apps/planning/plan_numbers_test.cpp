// Plans in numbers, beside the arithmetic that they are made of and beside runs of others.
#include "planning/plan_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fsdp/error.h"
#include "models/model_sizes.h"
#include "planning/hardware_file.h"
#include "planning/hardware_toml.h"

namespace trainer {
namespace {

RunOptions options_of(const char* model, int64_t ranks) {
  RunOptions options;
  options.model = models::config_of_size(model).value();
  options.ranks = ranks;
  options.batch = 1;
  options.param_dtype = "bf16";
  options.dry_run = true;
  return options;
}

PlanTarget target_of(const char* hardware, const char* engine, int64_t hosts = 1) {
  PlanTarget target{.hardware = hardware_of(hardware), .engine = engine, .hosts = hosts};
  target.memory = target.hardware.memory;
  return target;
}

// Peaks that were measured on one H200 with PyTorch's FSDP2 (docs/performance_h200.md), in MiB.
TEST(PlanNumbers, HaveThePeaksOfFsdp2) {
  struct Measured {
    int64_t layers, width, heads, batch, length;
    const char* dtype;
    const char* recomputed;
    double mebibytes;
  };
  constexpr Measured kMeasured[] = {{12, 768, 12, 8, 1024, "bf16", "none", 6275},
                                    {12, 768, 12, 1, 256, "bf16", "none", 2146},
                                    {24, 2048, 16, 4, 1024, "bf16", "none", 22'668},
                                    {24, 2048, 16, 4, 1024, "bf16", "all", 20'700},
                                    {12, 768, 12, 8, 1024, "fp32", "none", 11'020}};
  PlanTarget target = target_of("h200", "fsdp2");
  target.has_wide_loss = false;
  for (const Measured& measured : kMeasured) {
    RunOptions options = options_of("gpt2", 1);
    options.model.vocabulary = 50'304;
    options.model.layers = measured.layers;
    options.model.width = measured.width;
    options.model.heads = measured.heads;
    options.model.context = measured.length;
    options.batch = measured.batch;
    options.param_dtype = measured.dtype;
    options.activation_checkpoint = measured.recomputed;
    // 10 %: memory in which kernels compute is not in the formulas.
    EXPECT_NEAR(plan_numbers(target, options).memory.peak / 1048576 / measured.mebibytes, 1, 0.1) << measured.mebibytes;
  }
}

TEST(PlanNumbers, AStepIsNoShorterWithSlowerNetworks) {
  double last = 0;
  for (const double bandwidth : {50e9, 25e9, 5e9, 1e9}) {
    PlanTarget target = target_of("h100", "libfsdp", 8);
    target.hardware.network_bandwidth = bandwidth;
    const PlannedTime time = plan_numbers(target, options_of("llama2-7b", 64)).time.value();
    EXPECT_GE(time.step, last) << bandwidth;
    EXPECT_NEAR(time.compute + time.exposed_communication + time.idle, time.step, 1e-9 + 1e-9 * time.step);
    last = time.step;
  }
}

TEST(PlanNumbers, FullShardMovesMoreThanShardGradOpAndHoldsLess) {
  RunOptions options = options_of("llama2-7b", 64);
  const PlanTarget target = target_of("a100-80", "libfsdp", 8);
  const PlanNumbers full = plan_numbers(target, options);
  options.strategy = "shard-grad-op";
  const PlanNumbers once = plan_numbers(target, options);
  EXPECT_GT(full.communication.across_hosts, once.communication.across_hosts);
  EXPECT_LT(full.memory.peak, once.memory.peak);
}

TEST(PlanNumbers, MorePrefetchAndBuffersAreNoSlower) {
  RunOptions options = options_of("llama2-7b", 64);
  PlanTarget target = target_of("h100", "libfsdp", 8);
  target.hardware.network_bandwidth = 10e9;
  options.prefetch = 0;
  const double on_demand = plan_numbers(target, options).time->step;
  options.prefetch = 1;
  const double ahead = plan_numbers(target, options).time->step;
  EXPECT_LT(ahead, on_demand);
}

TEST(PlanNumbers, EveryModelStrategyAndEngineHasAnAnswer) {
  for (const std::string& model : models::planned_names()) {
    for (const std::string& engine : plan_engines()) {
      for (const char* strategy : kStrategies) {
        RunOptions options = options_of(model.c_str(), 16);
        options.strategy = strategy;
        options.model.context = std::min<int64_t>(options.model.context, 512);
        const PlanNumbers numbers = plan_numbers(target_of("h100", engine.c_str(), 2), options);
        ASSERT_TRUE(std::isfinite(numbers.memory.peak) && numbers.memory.peak > 0) << model << engine << strategy;
        ASSERT_TRUE(numbers.time && std::isfinite(numbers.time->step) && numbers.time->step > 0)
            << model << " " << engine << " " << strategy;
      }
    }
  }
}

TEST(PlanNumbers, ManyRanks) {
  for (const int64_t ranks : {1024, 10'000, 100'000}) {
    const PlanNumbers numbers = plan_numbers(target_of("h100", "libfsdp", ranks / 8), options_of("llama3-70b", ranks));
    EXPECT_GT(numbers.time->step, 0) << ranks;
    EXPECT_NEAR(numbers.memory.optimizer, 8.0 * 70'553'706'496 / static_cast<double>(ranks), 1e5) << ranks;
  }
}

std::string small_cpu_text() {
  return R"(name = "a CPU"
kind = "cpu"
memory = 16e9
ranks_per_host = 2
process_bytes = 60e6
program_bytes = 12e6
[network]
local_latency = 3e-6
local_bandwidth = 1e10
local_rank_latency = 0
[[reduce_scatter]]
ranks = 2
bytes = [4096, 8388608]
seconds = [6e-6, 7e-4]
[[share]]
dtype = "fp32"
ranks = 2
threads = 1
products = { sizes = [128, 512], rates = [9e10, 1e11] }
backward_products = { sizes = [128, 512], rates = [9e10, 1e11] }
passes = { sizes = [16384, 8388608], rates = [1e10, 5e8] }
attention = { sizes = [64, 1024], rates = [7e10, 1e11] }
backward_attention = { sizes = [64, 1024], rates = [7e10, 1e11] }
activation_rate = 8e8
backward_activation_rate = 8e8
norm_rate = 3e9
backward_norm_rate = 3e9
logit_rate = 9e8
update_rate = 5e8
operator_seconds = 7e-7
backward_operator_seconds = 1e-6
step_factors = { sizes = [128], rates = [1.2] }
)";
}

std::string problem_in(const std::string& toml) {
  try {
    hardware_in(toml, "machine 'x'");
  } catch (const fsdp::Error& error) {
    return error.what();
  }
  return "";
}

TEST(CpuHardware, IsReadAndWritten) {
  const fsdp::plan::Hardware cpu = hardware_in(small_cpu_text(), "it");
  EXPECT_TRUE(cpu.has_cpus());
  ASSERT_EQ(cpu.shares.size(), 1u);
  EXPECT_EQ(cpu.shares[0].products.at(512), 1e11);
  EXPECT_EQ(cpu.reduce_scatters.at(2).at(4096), 6e-6);
  const std::string written = hardware_toml(cpu, "Two lines,\nin a comment.");
  EXPECT_TRUE(written.starts_with("# Two lines,\n# in a comment.\nname = \"a CPU\"\nkind = \"cpu\"\n")) << written;
  EXPECT_EQ(hardware_toml(hardware_in(written, "it"), "Two lines,\nin a comment."), written);
  const fsdp::plan::Hardware gpu = hardware_of("a100-80");
  EXPECT_EQ(hardware_in(hardware_toml(gpu, ""), "it").all_reduces.at(8).size(), 12u);
}

TEST(CpuHardware, IsRefusedWithWrongOrMissingFigures) {
  const auto without = [](const std::string& line_begin) {
    std::string text = small_cpu_text();
    const size_t begin = text.find("\n" + line_begin) + 1;
    return problem_in(text.erase(begin, text.find('\n', begin) + 1 - begin));
  };
  const auto with = [](const std::string& found, const std::string& other) {
    std::string text = small_cpu_text();
    return problem_in(text.replace(text.find(found), found.size(), other));
  };
  EXPECT_EQ(problem_in(small_cpu_text()), "");
  for (const char* key : {"products", "passes", "attention", "logit_rate", "operator_seconds", "step_factors"})
    EXPECT_EQ(without(key), std::string("machine 'x': share.") + key + " is missing.");
  EXPECT_NE(without("process_bytes").find("process_bytes is missing."), std::string::npos);
  EXPECT_NE(with("dtype = \"fp32\"", "dtype = \"fp64\"").find("share.dtype has to be"), std::string::npos);
  EXPECT_NE(with("kind = \"cpu\"", "kind = \"tpu\"").find("kind has to be \"gpu\" or \"cpu\"."), std::string::npos);
  EXPECT_NE(with("rates = [9e10, 1e11]", "rates = [9e10]").find("share.products has to have as many sizes as rates"),
            std::string::npos);
  EXPECT_NE(with("norm_rate = 3e9", "norm_rate = -3e9").find("share.norm_rate has to be a number from 1e-21"),
            std::string::npos);
  EXPECT_NE(with("norm_rate", "nrm_rate").find("share.nrm_rate is no key of a machine; did you mean share.norm_rate?"),
            std::string::npos);
  EXPECT_NE(problem_in(small_cpu_text().substr(0, small_cpu_text().find("[[share]]"))).find("share is missing"),
            std::string::npos);
}

TEST(CpuHardware, HasTheMemoryOfRanksThatShareAHost) {
  PlanTarget target{.hardware = hardware_in(small_cpu_text(), "it")};
  target.memory = target.hardware.memory;
  RunOptions options = options_of("gpt2", 2);
  options.param_dtype = "fp32";
  const PlanNumbers two = plan_numbers(target, options);
  // A gather copies nothing, and a reduction reads the peers' gradients in place.
  EXPECT_EQ(two.memory.full_parameters, 0);
  EXPECT_GT(two.memory.full_gradients, 0);
  ASSERT_TRUE(two.host_bytes);
  EXPECT_NEAR(*two.host_bytes, 2 * (two.memory.peak + 60e6) + 12e6, 0.01 * *two.host_bytes);
  EXPECT_TRUE(two.fits);
  target.memory = *two.host_bytes - 1;
  EXPECT_FALSE(plan_numbers(target, options).fits);
  EXPECT_EQ(plan_json(two).at("memory").at("host"), *two.host_bytes);
  EXPECT_FALSE(plan_numbers(target_of("h100", "libfsdp"), options_of("gpt2", 2)).host_bytes);
}

TEST(CpuHardware, HasATimeForTheDtypesThatWereMeasured) {
  PlanTarget target{.hardware = hardware_in(small_cpu_text(), "it")};
  RunOptions options = options_of("gpt2", 2);
  EXPECT_FALSE(plan_numbers(target, options).time);
  options.param_dtype = "fp32";
  EXPECT_GT(plan_numbers(target, options).time.value().step, 0);
  for (const char* strategy : kStrategies) {
    options.strategy = strategy;
    EXPECT_GT(plan_numbers(target, options).time.value().step, 0) << strategy;
  }
  target.hosts = 2;
  EXPECT_FALSE(plan_numbers(target, options).time);
}

TEST(HardwareFiles, AreRead) {
  EXPECT_GE(hardware_names().size(), 4u);
  for (const std::string& name : hardware_names()) EXPECT_EQ(hardware_of(name).name, name);
  EXPECT_EQ(hardware_of("a100-80").all_reduces.at(8).size(), 12u);
}

TEST(HardwareFiles, RefuseUnknownKeysAndNumbersOutOfRange) {
  std::string text(hardware_text("h100.toml"));
  EXPECT_NO_THROW(hardware_in(text, "it"));
  const auto message = [](const std::string& toml) -> std::string {
    try {
      hardware_in(toml, "machine 'x'");
    } catch (const fsdp::Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message("memry = 3\n" + text).find("memry is no key of a machine; did you mean memory?"),
            std::string::npos);
  for (const char* value : {"-1", "0", "inf", "nan", "\"fast\"", "true", "1e30"}) {
    std::string wrong = text;
    wrong.replace(wrong.find("3.35e12"), 7, value);
    EXPECT_NE(message(wrong).find("compute.memory_bandwidth has to be a number from 1e-21 to 1e+21"), std::string::npos)
        << value;
  }
  EXPECT_NE(message("name = [").find("machine 'x': line 1"), std::string::npos);
  EXPECT_NE(
      message(text + "[[all_reduce]]\nranks = 2\nbytes = [1, 2]\nseconds = [1]\n").find("as many bytes as seconds"),
      std::string::npos);
}

}  // namespace
}  // namespace trainer
