// The topics of the textbook, in their order, and the parts that they share.
#pragma once

#include <fsdp/plan.h>

#include <string>
#include <vector>

#include "models/model_config.h"
#include "planning/textbook.h"

namespace trainer {

TextbookTopic bytes_per_parameter();
TextbookTopic gpt2_part_by_part();
TextbookTopic models_at_16_bytes();
TextbookTopic zero_stages();
TextbookTopic zero_on_hosts();
TextbookTopic volumes();
TextbookTopic traffic_across_hosts();
TextbookTopic largest_layer();
TextbookTopic llmc_memory();
TextbookTopic recomputed_activations();
TextbookTopic one_to_many();
TextbookTopic even_samples();

inline constexpr double kGigabyte = 1e9;
inline constexpr double kGibibyte = 1024.0 * 1024 * 1024;
inline constexpr double kMebibyte = 1024.0 * 1024;

// The state of a model on the first of `ranks` GPUs on hosts of 8, by --strategy, with --param-dtype bf16 or fp32.
fsdp::plan::StateMemory state_on_gpus(const std::vector<fsdp::plan::Unit>& units, const std::string& strategy,
                                      int64_t ranks, const std::string& param_dtype);

// A micro-batch of a training step on one GPU.
struct HeldRun {
  models::ModelConfig model;
  int64_t batch = 1;          // sequences of model.context tokens
  int64_t element_bytes = 4;  // of activations
  bool recomputes = false;    // all layers
};

// The most bytes of activations that are held at once.
double held_bytes(const HeldRun& run);

}  // namespace trainer
