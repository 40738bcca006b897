// Runs fsdp-train as its users do: the program itself, its exit code, what it prints and what it leaves behind.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/command.h"
#include "support/temporary_folder.h"

// Where no shell is needed to understand the arguments, the program may be called instead of started (call_train.cpp).
Ending run_train(const std::string& arguments);

// What --eval-only --json prints with these arguments; the test fails where that fails.
nlohmann::json evaluated(const std::string& arguments);

// Records of RUN/metrics.jsonl of steps, and of events that are told: none before the file is there, and no line that
// is still being written.
std::vector<nlohmann::json> metrics_of(const std::string& run);
// Those of another kind: "run_start", "data", "checkpoint".
std::vector<nlohmann::json> events_of(const std::string& run, const std::string& event);
std::vector<double> losses_of(const std::string& run);
// The records of steps, without the fields that time and memory decide.
std::vector<nlohmann::json> reproducible_steps_of(const std::string& run);

// A folder with a short text in it.
class TrainProgram : public testing::Test {
 protected:
  TrainProgram();

  // Arguments for a model that takes moments, with RUN under the test's folder; those in `more` take their place,
  // --data that of --text.
  std::string tiny_arguments(const std::string& run, const std::string& more) const;
  Ending tiny(const std::string& run, const std::string& more) const { return run_train(tiny_arguments(run, more)); }

  TemporaryFolder folder_;
  std::string text_;
};
