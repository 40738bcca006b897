#include "report.h"

#include <fmt/format.h>
#include <fsdp/error.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "configuration_file.h"
#include "console/units.h"
#include "metrics/plot.h"
#include "settings.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes << std::flush;
  if (!file) throw fsdp::Error(fmt::format("'{}' cannot be written.", path.string()));
}

fs::path make_run_folder(const Options& options) {
  std::error_code error;
  fs::create_directories(options.run, error);
  if (error) throw fsdp::Error(fmt::format("run folder '{}' cannot be made: {}.", options.run, error.message()));
  write_file(fs::path(options.run) / "config.json", settings_json(options));
  write_file(fs::path(options.run) / "config.toml", configuration_toml(options));
  return options.run;
}

// proc(5), statm: pages, the second number those in memory.
int64_t resident_bytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace

Report::Report(const Options& options, int64_t steps_done)
    : options_(options),
      terminal_(standard_output()),
      metrics_(make_run_folder(options) / "metrics.jsonl", steps_done),
      progress_(options.steps, options.log_every, terminal_),
      began_(Clock::now()),
      last_(began_) {}

void Report::add_speed(StepRecord& record) {
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - last_).count();
  step_seconds_ = step_seconds_ == 0 ? seconds : 0.95 * step_seconds_ + 0.05 * seconds;
  last_ = now;
  record.seconds = std::chrono::duration<double>(now - began_).count();
  record.seconds_left = static_cast<double>(options_.steps - record.step) * step_seconds_;
  record.tokens_per_second = static_cast<double>(options_.tokens_per_step()) / step_seconds_;
  record.memory_bytes = resident_bytes();
}

void Report::step(StepRecord record) {
  add_speed(record);
  if (record.validation_loss) validation_loss_ = record.validation_loss;
  metrics_.write(record);
  progress_.show(record);
}

void Report::finish(const std::string& sample) {
  progress_.finish();
  write_file(fs::path(options_.run) / "sample.txt", sample);
  fmt::print("\nloss, nats a byte, by step:\n\n{}",
             plot(metrics_.losses(), {.width = std::min(terminal_.interactive ? terminal_width() : 80, 80),
                                      .first_step = metrics_.first_step(),
                                      .colour = terminal_.colour}));
  if (validation_loss_) {
    fmt::print("\nloss on held-back text: {:.4f} nats a byte ({:.2f} bits)\n", *validation_loss_,
               *validation_loss_ / std::log(2.0));
  }
  if (options_.sample_length > 0) fmt::print("\nsample:\n\n{}\n", printable(sample));
  fmt::print("\ncheckpoint: {}\n", options_.checkpoint_folder(options_.steps));
  std::fflush(stdout);
}

}  // namespace trainer
