// Records of a run: of each step when it is done, and of events.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainer {

struct MemoryPart {
  std::string name;  // "parameters", "gradients", "optimizer", ...
  int64_t bytes = 0;
};

struct GroupRate {
  std::string group;
  double lr = 0;
};

struct StepRecord {
  int64_t step = 0;  // steps done, this one included
  double loss = 0;   // the mean over all micro-batches of all ranks, in nats per token
  double grad_norm = 0;
  double lr = 0;                 // of the first group of parameters
  double tokens_per_second = 0;  // of the whole job
  int64_t memory_bytes = 0;      // resident in rank 0
  double seconds = 0;            // since the first step of this process began
  double seconds_left = 0;
  std::optional<double> validation_loss = std::nullopt;
  std::optional<double> loss_scale = std::nullopt;  // that the loss was multiplied by, where it was
  bool skipped = false;                             // its gradients were not finite: no parameter has changed
  int64_t tokens = 0;                               // trained on so far, this step's included, by the whole job
  // That this step took in rank 0, the record of the step before it included; then the four parts that add up to it.
  double step_seconds = 0;
  std::optional<double> data_seconds = std::nullopt;              // reading the batches
  std::optional<double> forward_backward_seconds = std::nullopt;  // the passes of all micro-batches
  std::optional<double> optimizer_seconds = std::nullopt;         // clipping the gradients and changing the parameters
  std::optional<double> other_seconds = std::nullopt;             // all else: records, and what ranks tell each other
  std::optional<double> wait_seconds = std::nullopt;  // of passes and optimizer, that rank 0 waited for other ranks
  // With a pipeline: the mean share of the passes' time in which a rank ran none, and its formula.
  std::optional<double> idle_share = std::nullopt, idle_share_formula = std::nullopt;
  std::optional<double> mfu = std::nullopt;                 // model FLOPs utilisation: 1 is the measured peak
  std::optional<int64_t> peak_memory_bytes = std::nullopt;  // the most that was ever resident in rank 0
  std::vector<MemoryPart> memory = {};                      // what rank 0 holds, as far as it is known by part
  std::vector<GroupRate> learning_rates = {};               // where groups of parameters have rates of their own
};

// The record of an evaluation of weights on validation data (--eval-only).
struct EvaluationRecord {
  std::string weights;         // the folder that they were read from
  int64_t step = 0;            // steps that they were trained for; 0 where the folder does not say
  double validation_loss = 0;  // mean over all tokens, in nats per token
  double perplexity = 0;       // e to the power of the loss
  int64_t tokens = 0;          // that were predicted
};

// An event that a person should know of: "checkpoint saved", "loss not finite".
struct Event {
  int64_t step = 0;  // after which it happened
  std::string text;
  double seconds = 0;  // as in StepRecord
};

}  // namespace trainer
