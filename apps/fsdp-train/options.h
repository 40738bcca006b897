// What a run is told, and how the command line tells it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/data_order.h"
#include "learning_rate.h"
#include "models/gpt_config.h"

namespace trainer {

// The words for fsdp::Strategy and for dtypes; sharding.h says what they mean.
inline constexpr std::array<const char*, 6> kStrategies = {"full-shard", "shard-grad-op", "shard-optimizer",
                                                           "no-shard",   "hybrid-shard",  "hybrid-shard-grad-op"};
inline constexpr std::array<const char*, 3> kDtypes = {"fp32", "bf16", "fp16"};

struct Options {
  std::string text;
  std::string run = "run";
  std::string checkpoint;  // empty: begin anew

  gpt::Config model;

  int64_t ranks = 1;
  int64_t threads = 0;  // a rank; 0: the cores shared evenly, or OMP_NUM_THREADS
  int64_t timeout = 600;

  std::string strategy = "full-shard";  // one of kStrategies
  int64_t shard_group_size = 0;         // 0: all ranks, or the ranks of a host for the hybrid strategies
  std::string param_dtype = "fp32";     // one of kDtypes
  std::string reduce_dtype = "fp32";    // one of kDtypes

  int64_t steps = 300;
  int64_t batch = 8;
  int64_t micro_batches = 1;
  double lr = 1e-3;
  std::optional<int64_t> warmup;                        // none on the command line: a fifth of the steps, at most 100
  static constexpr double kBeta1 = 0.9, kBeta2 = 0.99;  // of AdamW
  double weight_decay = 0.1;
  double clip = 1.0;
  int64_t seed = 1;

  int64_t log_every = 0;  // 0: every few seconds
  int64_t validate_every = 0;
  int64_t save_every = 0;
  int64_t sample_length = 400;
  double temperature = 0.8;
  int64_t top_k = 40;
  std::string prompt = "\n";

  data::StepShape step_shape() const { return {.ranks = ranks, .micro_batches = micro_batches, .batch = batch}; }
  bool scales_loss() const { return param_dtype == "fp16"; }  // whose range is too small for gradients as they are
  int64_t tokens_per_step() const { return ranks * micro_batches * batch * model.context; }
  std::string checkpoint_folder(int64_t step) const { return run + "/step-" + std::to_string(step); }
  LearningRate learning_rate() const { return {.peak = lr, .warmup = *warmup, .steps = steps}; }
};

struct CommandLine {
  Options options;                    // valid when there are no problems
  std::vector<std::string> problems;  // every one that was found, a sentence each
  std::string help;                   // not empty when help was asked for
};

// Reads `arguments`, without the program's name.
CommandLine parse_command_line(std::vector<std::string> arguments);

}  // namespace trainer
