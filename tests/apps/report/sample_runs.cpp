#include "apps/report/sample_runs.h"

#include <cmath>
#include <fstream>
#include <map>
#include <vector>

#include "metrics/metrics.h"

using trainer::StepRecord;

namespace {

// Between 0 and 1, and no pattern to the eye.
double noise(int64_t step) {
  const double x = std::sin(static_cast<double>(step) * 12.9898) * 43758.5453;
  return x - std::floor(x);
}

StepRecord sample_record(int64_t step, int64_t steps) {
  const double done = static_cast<double>(step) / static_cast<double>(steps);
  StepRecord record{.step = step,
                    .loss = 1.4 + 3.2 * std::exp(-6 * done) + 0.3 * noise(step),
                    .grad_norm = 0.4 + 2 * std::exp(-9 * done) + 0.4 * noise(step + 1),
                    .lr = 1e-3 * (done < 0.1 ? done / 0.1 : 0.55 + 0.45 * std::cos(3.14 * done)),
                    .tokens_per_second = 52'000 + 4000 * noise(step + 2),
                    .memory_bytes = 700'000'000 + static_cast<int64_t>(5e7 * noise(step + 3)),
                    .seconds = 0.16 * static_cast<double>(step),
                    .tokens = 8192 * step,
                    .step_seconds = 0.155 + 0.02 * noise(step + 4),
                    .data_seconds = 0.0004 + 0.0003 * noise(step + 5),
                    .mfu = 0.38 + 0.03 * noise(step + 6),
                    .peak_memory_bytes = 760'000'000,
                    .memory = {{"parameters", 120'000'000},
                               {"gradients", 120'000'000},
                               {"optimizer", 240'000'000},
                               {"full parameters", 60'000'000},
                               {"full gradients", 60'000'000}}};
  if (step % (steps / 15) == 0 || step == steps) record.validation_loss = 1.6 + 3 * std::exp(-6 * done);
  return record;
}

}  // namespace

trainer::ProcessStart sample_start() {
  return {.step = 0,
          .time = "2026-11-23T03:01:02Z",
          .command = "fsdp-train --text 'a file' --ranks 2",
          .folder = "/home/ada",
          .model = "GPT-2: 4 layers of width 64",
          .parameters = 834'304,
          .steps = 600,
          .ranks = 2,
          .hosts = 1,
          .threads = 1,
          .host = "tower",
          .process = 4711,
          .processor = "<b>EPYC",
          .cores = 2,
          .total_memory = 24'000'000'000,
          .fsdp_version = "1.2.3",
          .torch_version = "2.13.0"};
}

trainer::RunFolder sample_run(const std::string& name, int64_t steps) {
  trainer::RunFolder run{.name = name};
  std::map<std::string, std::vector<double>>& columns = run.metrics.columns;
  for (int64_t step = 1; step <= steps; ++step) {
    const StepRecord record = sample_record(step, steps);
    run.metrics.steps.push_back(step);
    columns["loss"].push_back(record.loss);
    columns["grad_norm"].push_back(record.grad_norm);
    columns["lr"].push_back(record.lr);
    columns["tokens_per_second"].push_back(record.tokens_per_second);
    columns["step_seconds"].push_back(record.step_seconds);
    columns["seconds"].push_back(record.seconds);
  }
  for (const char* more : {"validation_loss", "mfu", "data_seconds", "loss_scale"}) columns[more] = columns["loss"];
  for (const char* part : {"tokens", "memory_bytes", "memory.parameters", "memory.gradients", "memory.optimizer"}) {
    columns[part] = columns["seconds"];
  }
  return run;
}

std::filesystem::path write_sample_run(const std::filesystem::path& folder, const std::string& name,
                                       const SampleFiles& files) {
  constexpr int64_t kSteps = 300;
  const std::filesystem::path path = folder / name;
  std::filesystem::create_directories(path);
  trainer::MetricsFile metrics(path / "metrics.jsonl", 0, [](const std::string&) {});
  if (files.has_start) metrics.write(sample_start());
  for (int64_t step = 1; step <= kSteps; ++step) {
    metrics.write(sample_record(step, kSteps));
    if (step == 100) metrics.write(trainer::Event{.step = step, .text = files.event, .seconds = 16});
  }
  if (files.end) {
    metrics.write(trainer::ProcessEnd{.step = kSteps,
                                      .seconds = 48,
                                      .time = "2026-11-23T03:02:00Z",
                                      .status = *files.end,
                                      .reason = *files.end == trainer::EndStatus::Finished ? "" : "the <b>reason"});
  }
  std::ofstream(path / "config.json") << files.config;
  std::ofstream(path / "sample.txt") << files.sample;
  return path;
}
