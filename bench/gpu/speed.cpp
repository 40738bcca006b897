// The time of a training step on a GPU, for scripts/gpu-check: prints one line of JSON.
//
// Milliseconds are medians of all steps except the first three. Launches, copies and waits are those of one more step,
// under LibTorch's profiler.
#include <c10/core/CachingDeviceAllocator.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/cuda.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "gpt.h"

namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int kWarmUp = 3;

struct Job {
  std::string variant = "sharded";
  gpu::GptSizes sizes;
  int64_t batch = 8;
  int steps = 23;
  fsdp::LaunchOptions launch;
  bool has(const char* word) const { return variant.find(word) != std::string::npos; }
};

struct Batch {
  torch::Tensor tokens, targets;
};

Batch make_batch(const Job& job, const fsdp::World& world, int step) {
  auto random = at::detail::createCPUGenerator(static_cast<uint64_t>(1000 + step * world.size() + world.rank()));
  const torch::Tensor all =
      torch::randint(0, job.sizes.vocabulary, {job.batch, job.sizes.context + 1}, random, torch::dtype(torch::kLong))
          .to(world.device());
  return {all.slice(1, 0, job.sizes.context).contiguous(), all.slice(1, 1).contiguous()};
}

// A model with its optimizer: sharded by this library, or plain LibTorch.
struct Trained {
  gpu::Gpt model{nullptr};
  std::optional<fsdp::ShardedModel> sharded;
  std::optional<fsdp::AdamW> optimizer;
  std::optional<torch::optim::AdamW> plain_optimizer;

  void step() {
    if (optimizer) {
      optimizer->step();
      optimizer->zero_grad();
    } else {
      plain_optimizer->step();
      plain_optimizer->zero_grad();
    }
  }
};

Trained make(const Job& job, fsdp::World& world) {
  torch::manual_seed(0);
  Trained trained{.model = gpu::Gpt(job.sizes), .sharded = {}, .optimizer = {}, .plain_optimizer = {}};
  trained.model->to(world.device());
  trained.model->set_recomputed(job.has("recomputed"));
  if (job.has("plain")) {
    trained.model->to(torch::kBFloat16);
    trained.plain_optimizer.emplace(trained.model->parameters(), torch::optim::AdamWOptions(3e-4));
    return trained;
  }
  fsdp::Options options;
  options.units = fsdp::units_of<gpu::BlockImpl>();
  options.mixed_precision = {.param_dtype = torch::kBFloat16, .reduce_dtype = torch::kFloat32};
  options.cpu_offload = job.has("shards on host");
  options.offload_activations = job.has("activations on host");
  trained.sharded.emplace(fsdp::shard(*trained.model, world, options));
  trained.optimizer.emplace(*trained.sharded, fsdp::AdamWOptions{.lr = 3e-4});
  return trained;
}

void wait_for_device(const fsdp::World& world) {
  if (!world.device().is_cpu()) torch::cuda::synchronize();
}

double milliseconds(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Forward, backward and, where the job says so, clipping.
torch::Tensor forward_backward(const Job& job, Trained& trained, const Batch& batch) {
  torch::Tensor loss = trained.model->loss(batch.tokens, batch.targets);
  loss.backward();
  if (job.has("clipped")) trained.sharded->clip_grad_norm_(1.0);
  return loss;
}

// The host's calls of CUDA in one step, by kind.
Json calls_of(const std::function<void()>& step) {
  namespace profiler = torch::autograd::profiler;
  using torch::profiler::impl::ActivityType;
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<ActivityType> activities{ActivityType::CPU, ActivityType::CUDA};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  step();
  const auto found = profiler::disableProfiler();
  int launches = 0, copies = 0, waits = 0;
  for (const auto& event : found->events()) {
    const std::string name = event.name();
    launches += name.starts_with("cudaLaunch") || name.starts_with("cuLaunch");
    copies += name.starts_with("cudaMemcpy");
    waits += name.starts_with("cuda") && name.find("Synchronize") != std::string::npos;
  }
  return {{"launches", launches}, {"copies", copies}, {"waits", waits}};
}

Json train(const Job& job, fsdp::World& world) {
  Trained trained = make(job, world);
  std::vector<double> steps, forwards, updates;
  double first_loss = 0, last_loss = 0;
  for (int step = 0; step < job.steps; ++step) {
    const Batch batch = make_batch(job, world, step);
    world.barrier();
    wait_for_device(world);
    const auto begin = Clock::now();
    const torch::Tensor loss = forward_backward(job, trained, batch);
    wait_for_device(world);
    const auto middle = Clock::now();
    trained.step();
    wait_for_device(world);
    const auto end = Clock::now();
    last_loss = loss.item<double>();
    if (step == 0) first_loss = last_loss;
    if (step < kWarmUp) continue;
    steps.push_back(milliseconds(begin, end));
    forwards.push_back(milliseconds(begin, middle));
    updates.push_back(milliseconds(middle, end));
  }
  Json found{{"step_ms", median(steps)},
             {"forward_backward_ms", median(forwards)},
             {"optimizer_ms", median(updates)},
             {"first_loss", first_loss},
             {"last_loss", last_loss}};
  if (world.device().is_cpu()) return found;
  const auto stats = c10::getDeviceAllocator(world.device().type())->getDeviceStats(world.device().index());
  found["peak_mib"] = stats.allocated_bytes[0].peak >> 20;
  const Batch batch = make_batch(job, world, job.steps);
  found.update(calls_of([&] {
    forward_backward(job, trained, batch);
    trained.step();
  }));
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  Job job;
  CLI::App app("The time of a training step on a GPU");
  app.add_option("--variant", job.variant,
                 "words: plain, sharded, clipped, recomputed, 'activations on host', 'shards on host'");
  app.add_option("--layers", job.sizes.layers);
  app.add_option("--width", job.sizes.width);
  app.add_option("--heads", job.sizes.heads);
  app.add_option("--context", job.sizes.context);
  app.add_option("--vocabulary", job.sizes.vocabulary);
  app.add_option("--batch", job.batch);
  app.add_option("--steps", job.steps)->check(CLI::Range(kWarmUp + 1, 1000));
  app.add_option("--ranks", job.launch.ranks);
  app.add_option("--backend", job.launch.backend);
  CLI11_PARSE(app, argc, argv);
  return fsdp::launch(job.launch, [&](fsdp::World& world) {
    const Json found = train(job, world);
    if (world.rank() == 0) std::cout << "RESULT " << found << std::endl;
  });
}
