// The most that a step takes is what was planned: of all that the model reports, of tensors, and of the process.
#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "models/language_model.h"
#include "options/frozen.h"
#include "planning/host_memory.h"
#include "planning/planned_activations.h"
#include "run/sharding.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "training/step_code.h"
#include "training/tensor_memory.h"

namespace trainer {
namespace {

using fsdp::testing::run_rank_processes;

// The bytes of memory that this process allocated, as the kernel counts them: of a page that several processes share,
// each has an equal part. Pages of LibTorch's files do not count, since that part changes whenever another program that
// uses them begins or ends.
double proportional_bytes() {
  std::ifstream report("/proc/self/smaps_rollup");
  double kibibytes = 0;
  for (std::string word; report >> word;) {
    if (word != "Pss_Anon:" && word != "Pss_Shmem:") continue;
    double part = 0;
    report >> part;
    kibibytes += part;
  }
  return 1024 * kibibytes;
}

// Looks while it lives, as often as it can; on a thread of its own.
class Highest {
 public:
  explicit Highest(std::function<double()> look) : look_(std::move(look)), thread_([this] { run(); }) {}
  ~Highest() { end(); }
  Highest(const Highest&) = delete;
  Highest& operator=(const Highest&) = delete;

  double end() {
    ends_ = true;
    if (thread_.joinable()) thread_.join();
    return highest_;
  }

 private:
  void run() {
    while (!ends_) {
      highest_ = std::max(highest_, look_());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::function<double()> look_;
  double highest_ = 0;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

// Of all ranks.
double sum_of_ranks(fsdp::World& world, double value) {
  double sum = 0;
  for (const torch::Tensor& rank : world.all_gather(torch::tensor({value}, torch::kFloat64)))
    sum += rank.item<double>();
  return sum;
}

// More than the process itself.
RunOptions large_run(const fsdp::World& world) {
  RunOptions options;
  options.model = {.vocabulary = 8192, .context = 256, .width = 512, .layers = 4, .heads = 8};
  options.batch = 4;
  options.ranks = world.size();
  return options;
}

fsdp::Options sharding_with_budget(const RunOptions& options) {
  fsdp::Options sharding = sharding_of(options);
  sharding.activation_memory = static_cast<int64_t>(options.activation_memory.value_or(0));
  return sharding;
}

// A rank's memory in which kernels compute, such as packed operands of products: it is in no plan.
constexpr double kOfKernels = 4e6;
// The first step of a run with a budget keeps all activations, and the heap keeps some pages of them.
constexpr double kOfMeasuredStep = 8e6;

void expect_planned_peak(fsdp::World& world, const RunOptions& options) {
  // What glibc's heap keeps of memory that was freed is in no plan: here it gives all back.
  const auto return_all_freed = [] { mallopt(M_MMAP_THRESHOLD, 64 << 10); };
  return_all_freed();
  torch::set_num_threads(1);
  RunPlan plan{.options = options};
  load_code_of_steps(options);
  plan.host.process_bytes = proportional_bytes();
  const HostMemory planned = host_memory(plan, parts_of(options));

  const auto model = models::make_deferred_model(options.model, torch::kCPU);
  model->set_recomputation(options.recomputation());
  auto sharded = fsdp::shard(*model, world, sharding_with_budget(options));
  return_all_freed();  // with files `shard` has set another limit
  fsdp::AdamW optimizer(sharded);
  sharded.initialise();
  const std::vector<int64_t> shape = {options.batch, options.model.context};
  double most_reported = 0, most_other = 0, most_of_process = 0;
  for (int step = 0; step < 3; ++step) {
    TensorMemory in_step(torch::kCPU);
    in_step.begin_step();
    sharded.reset_peak_memory();
    const auto reported_now = [&] {
      const fsdp::MemoryReport report = sharded.memory();
      return static_cast<double>(report.total_bytes() - report.offloaded_bytes + report.activation_bytes);
    };
    Highest reported(reported_now);
    Highest of_process(proportional_bytes);
    const torch::Tensor tokens = torch::randint(options.model.vocabulary, shape, torch::kInt64);
    model->loss(tokens, tokens).backward();
    const double other = static_cast<double>(in_step.peak_bytes() - sharded.memory().peak_activation_bytes);
    const double after_backward = reported_now();  // the other thread may wait until the step is over
    optimizer.step();
    optimizer.zero_grad();
    if (step == 0) continue;  // makes what stays
    most_other = std::max(most_other, other);
    most_reported = std::max({most_reported, after_backward, reported.end()});
    most_of_process = std::max(most_of_process, of_process.end());
  }
  const double all_of_processes = sum_of_ranks(world, most_of_process);
  // Neither measure counts what lies in files: the kernel may take those pages back at any time.
  fsdp::plan::StateMemory rank = planned.model[static_cast<size_t>(world.rank())];
  rank.resident = 0;
  const double model_and_activations =
      std::max<double>(rank.total(), static_cast<double>(rank.total() - rank.late) + planned.activations);
  EXPECT_NEAR(most_reported, model_and_activations, 0.01 * most_reported);
  // Of layers that keep all or inputs, the plan takes the worse.
  if (options.activation_memory) {
    EXPECT_LE(most_other, 1.05 * planned.temporary);
  } else {
    EXPECT_NEAR(most_other, planned.temporary, 0.05 * planned.temporary);
  }
  EXPECT_NEAR(
      all_of_processes, sum_of_ranks(world, planned.of_rank(rank)),
      0.05 * all_of_processes + (kOfKernels + (options.activation_memory ? kOfMeasuredStep : 0)) * world.size());
}

class PlannedPeak : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, PlannedPeak, ::testing::Values(1, 2), ::testing::PrintToStringParamName());

TEST_P(PlannedPeak, IsThatOfAStep) {
  for (const char* dtype : {"fp32", "bf16"}) {
    // Without these instructions LibTorch's products in bf16 take minutes here.
    if (dtype == std::string("bf16") && !__builtin_cpu_supports("avx512bw")) continue;
    run_rank_processes(GetParam(), [&](fsdp::World& world) {
      RunOptions options = large_run(world);
      options.param_dtype = dtype;
      expect_planned_peak(world, options);
    });
  }
}

TEST_P(PlannedPeak, IsThatOfAStepThatRunsItsBlocksAgain) {
  run_rank_processes(GetParam(), [&](fsdp::World& world) {
    RunOptions options = large_run(world);
    options.activation_checkpoint = "all";
    expect_planned_peak(world, options);
  });
}

TEST(PlannedPeakOf, ALlamasStep) {
  run_rank_processes(2, [](fsdp::World& world) {
    RunOptions options = large_run(world);
    options.model.family = models::Family::Llama;
    expect_planned_peak(world, options);
  });
}

TEST(PlannedPeakOf, AStepThatKeepsProducts) {
  run_rank_processes(2, [](fsdp::World& world) {
    RunOptions options = large_run(world);
    options.activation_checkpoint = "selective";
    expect_planned_peak(world, options);
  });
}

// The least one: with more the choice depends on times.
TEST(PlannedPeakOf, AStepWithABudget) {
  run_rank_processes(2, [](fsdp::World& world) {
    RunOptions options = large_run(world);
    options.activation_memory = 1;
    options.activation_memory = planned_activations(options, false).in_memory;
    expect_planned_peak(world, options);
  });
}

TEST(PlannedPeakOf, AStepWhoseOptimizerLiesInFiles) {
  const fsdp::testing::ScratchDirectory scratch;
  run_rank_processes(2, [&](fsdp::World& world) {
    RunOptions options = large_run(world);
    options.offload = "optimizer";
    options.offload_directory = scratch.path().string();
    expect_planned_peak(world, options);
  });
}

}  // namespace
}  // namespace trainer
