// A run of an engine that divides the data, in time: from the model's shape to its step. Pure.
#pragma once

#include <cstdint>

#include "plan/engine_profile.h"
#include "plan/sharded_step.h"
#include "plan/transformer.h"

namespace fsdp::plan {

struct ShardedRun {
  TransformerShape shape = {};
  PassShape pass = {};
  int64_t micro_batches = 1;
  int64_t ranks = 1;
  int64_t group = 1;            // ranks that hold the model once; ranks of one host for hybrid strategies
  bool gathers_again = true;    // full parameters go after each forward of a unit
  int64_t recomputed = 0;       // layers that run again as a whole
  bool is_selective = false;    // all layers run again but for every second product
  int64_t layers_per_unit = 1;  // that are gathered and reduced together

  bool is_one_unit() const { return shape.layers > 1 && layers_per_unit >= shape.layers; }
  // The unit of the ends of the model, or of all.
  int64_t root_parameters() const { return is_one_unit() ? shape.parameters() : shape.root_parameters(); }
  int64_t reduction_element = 4;  // bytes of an element of gradients between ranks
  bool reduces_each_micro_batch = true;
  bool clips = true;
};

ShardedStep sharded_step(const ShardedRun& run, const ShardedEngine& engine, const Hardware& hardware);
StepSeconds step_seconds(const ShardedRun& run, const ShardedEngine& engine, const Hardware& hardware);

}  // namespace fsdp::plan
