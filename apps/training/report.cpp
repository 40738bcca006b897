#include "training/report.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "console/shell_words.h"
#include "console/units.h"
#include "files/durable_file.h"
#include "metrics/machine.h"
#include "metrics/plot.h"
#include "metrics/process_memory.h"
#include "options/configuration_file.h"
#include "options/frozen.h"
#include "options/settings.h"
#include "run/run_hyperparameters.h"

namespace trainer {

namespace fs = std::filesystem;
using fsdp::files::write_durably;

namespace {

fs::path made(const fs::path& run) {
  std::error_code error;
  fs::create_directories(run, error);
  if (error) throw fsdp::Error(fmt::format("run folder '{}' cannot be made: {}.", run.string(), error.message()));
  return run;
}

void write_settings(const RunOptions& options, const tokenizers::Tokenizer* tokenizer) {
  const fs::path run = options.run;
  write_durably(run / "config.json", settings_json(options));
  write_durably(run / "config.toml", configuration_toml(options));
  if (tokenizer == nullptr) return;
  const tokenizers::Tokenizer::File file = tokenizer->file();
  write_durably(run / file.name, file.bytes);
}

}  // namespace

Report::Report(const RunOptions& options, const tokenizers::Tokenizer* tokenizer, const ProcessStart& start,
               const MeasuredPeak& peak, RunLock& lock)
    : options_(options),
      tokenizer_(tokenizer),
      lock_(lock),
      peak_(peak),
      flops_per_token_(models::flops_per_token(options.model, options.model.context, frozen_parameters(options))),
      terminal_(standard_output()),
      progress_(options.steps, options.log_every, terminal_),
      metrics_(made(options.run) / "metrics.jsonl", start.step, [this](const std::string& text) { tell(text); }),
      tensorboard_(fs::path(options.run) / "tensorboard", start.step, hyperparameters_of(options),
                   [this](const std::string& text) { tell(text); }),
      began_(Clock::now()),
      last_(began_),
      last_step_(start.step) {
  write_settings(options, tokenizer);  // after the record of an earlier run was found to be readable
  metrics_.write(start);
}

void Report::repair_folder_if_lost() try {
  constexpr std::chrono::seconds kBetweenTries(5);
  const FolderFiles files{lock_, metrics_, tensorboard_, [&] { write_settings(options_, tokenizer_); }};
  if ((!is_folder_lost_ && files.are_in_place()) || Clock::now() < next_repair_) return;
  if (!lock_.is_in_place() && !metrics_.is_in_place()) folder_was_lost_ = true;
  next_repair_ = Clock::now() + kBetweenTries;
  const std::string told = repair_folder(options_.run, files);
  is_folder_lost_ = false;
  next_repair_ = {};
  event(last_step_, told);
} catch (const FolderTaken&) {
  throw;
} catch (const fsdp::Error& error) {
  if (std::exchange(is_folder_lost_, true)) return;
  tell(fmt::format("files of the run folder were removed or moved, and cannot be made again; training goes on: {}",
                   error.what()));
}

void Report::add_speed(StepRecord& record) {
  const auto average = [](double before, double now) { return before == 0 ? now : 0.95 * before + 0.05 * now; };
  const Clock::time_point now = Clock::now();
  seconds_a_step_ = average(seconds_a_step_, std::chrono::duration<double>(now - last_).count());
  training_seconds_ = average(training_seconds_, record.step_seconds);
  last_ = now;
  const auto tokens = static_cast<double>(options_.tokens_per_step());
  if (record.tokens == 0) record.tokens = record.step * options_.tokens_per_step();
  record.seconds = seconds_since_beginning();
  record.seconds_left = static_cast<double>(options_.steps - record.step) * seconds_a_step_;
  record.tokens_per_second = tokens / training_seconds_;
  record.mfu = flops_per_token_ * tokens / (record.step_seconds * peak_.flops());
  const ProcessMemory memory = process_memory();
  record.memory_bytes = memory.resident_bytes;
  record.peak_memory_bytes = memory.peak_bytes;
}

double Report::seconds_since_beginning() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

void Report::event(int64_t step, const std::string& text) {
  write(Event{.step = step, .text = text, .seconds = seconds_since_beginning()});
  tell(fmt::format("step {}: {}", step, text));
}

void Report::checkpoint(CheckpointRecord record, const std::string& text) {
  record.seconds = seconds_since_beginning();
  write(record);
  if (!text.empty()) tell(fmt::format("step {}: {}", record.step, text));
}

void Report::step(StepRecord record) {
  add_speed(record);
  step_times_.add(record);
  if (record.validation_loss) validations_.push_back({.step = record.step, .loss = *record.validation_loss});
  for (const MemoryPart& part : record.memory) {
    if (part.name == "activations") activation_bytes_ = std::max(activation_bytes_, part.bytes);
    if (part.name == "activations in files") stored_bytes_ = std::max(stored_bytes_, part.bytes);
  }
  write(record);
  tensorboard_.write(record);
  progress_.show(record);
}

void Report::sample(int64_t step, const std::string& text) {
  write_durably(fs::path(options_.run) / fmt::format("sample-{}.txt", step), text);
  tell(fmt::format("step {} writes: {}", step, text));
}

void Report::keep_sample(const std::string& sample) try {
  if (!sample.empty()) write_durably(fs::path(options_.run) / "sample.txt", sample);
} catch (const fsdp::Error& error) {
  tell(fmt::format("the sample could not be kept: {}", error.what()));
}

void Report::finish(int64_t steps_done, const std::string& sample, const std::string& best) {
  progress_.finish();
  keep_sample(sample);
  draw(fmt::format("\nloss, nats per token, by step:\n\n{}",
                   plot(metrics_.losses(), {.width = std::min(terminal_.interactive ? terminal_width() : 80, 80),
                                            .first_step = metrics_.first_step(),
                                            .colour = terminal_.colour,
                                            .utf8 = terminal_.utf8})));
  if (!validations_.empty()) {
    const double loss = validations_.back().loss;
    print(fmt::format("\nvalidation loss: {:.4f} nats per token ({:.2f} bits)\n", loss, loss / std::log(2.0)));
  }
  if (options_.sample_length > 0 && !sample.empty()) print(fmt::format("\nsample:\n\n{}\n", sample));
  std::string memory;
  if (activation_bytes_ > 0) {
    memory = fmt::format("memory    {:>10}   of activations at most, on rank 0\n",
                         short_bytes(static_cast<size_t>(activation_bytes_)));
  }
  if (stored_bytes_ > 0) {
    memory += fmt::format("files     {:>10}   of activations at most, on rank 0\n",
                          short_bytes(static_cast<size_t>(stored_bytes_)));
  }
  print(fmt::format("\n{}{}checkpoint: {}\n", step_times_.text(peak_.flops()), memory,
                    options_.no_save ? "none, as --no-save asks" : options_.checkpoint_folder(steps_done)));
  if (!best.empty()) print(fmt::format("best:       {}\n", best));
  tell_fall(steps_done);
}

void Report::tell_fall(int64_t steps_done) const {
  const std::optional<Validation> before = lowest_before_fall(validations_);
  if (!before || options_.no_save || validations_.back().step != steps_done) return;
  print(fmt::format("the validation loss still falls: {:.4f} after {} steps, {:.4f} now; go on with: {}\n",
                    before->loss, grouped(before->step), validations_.back().loss,
                    shell_words({"fsdp-train", "--resume", options_.run, "--steps", std::to_string(2 * steps_done)})));
}

void Report::end(int64_t steps_done, EndStatus status, const std::string& reason) {
  tensorboard_.end(steps_done, status == EndStatus::Finished);
  write(ProcessEnd{.step = steps_done,
                   .seconds = seconds_since_beginning(),
                   .time = utc_time(),
                   .status = status,
                   .reason = reason});
}

void Report::stopped(int64_t steps_done) {
  progress_.finish();
  if (options_.no_save) return print("nothing is saved, as --no-save asks\n");
  print(fmt::format("saved to {}; go on with: fsdp-train --resume {}\n", options_.checkpoint_folder(steps_done),
                    options_.run));
}

}  // namespace trainer
