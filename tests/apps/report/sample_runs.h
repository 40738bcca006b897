// Runs to report on, made here: their curves look like those of a training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "metrics/process_record.h"
#include "report/run.h"

// A run in memory, with every field that a step may have.
trainer::RunFolder sample_run(const std::string& name, int64_t steps);

// A run folder `folder`/`name` of 300 steps; the rest of its files are given. Returns its path.
struct SampleFiles {
  std::string config = R"({"lr": 0.001, "model": {"width": 64}, "text": "bible.txt"})";
  std::string sample = "And God said,\n\nLet there be light";
  std::string event = "checkpoint saved";
  bool has_start = false;  // a record of the process's beginning
  std::optional<trainer::EndStatus> end = std::nullopt;
};
std::filesystem::path write_sample_run(const std::filesystem::path& folder, const std::string& name,
                                       const SampleFiles& files = {});

// As rank 0 records it when it begins to train.
trainer::ProcessStart sample_start();
