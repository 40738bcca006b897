// A step of Megatron-DeepSpeed as of 2022, in time: fp16 with fp32 states, attention in several kernels, tensor and
// pipeline parallelism (1F1B), one sum of the gradients at the end (Narayanan et al., 2021,
// https://arxiv.org/abs/2104.04473). Pure.
#pragma once

#include "plan/engine_profile.h"
#include "plan/sharded_step.h"
#include "plan/transformer.h"

namespace fsdp::plan {

struct MegatronRun {
  TransformerShape shape = {};  // its vocabulary is padded to a multiple of 128 for each tensor rank
  int64_t batch = 1, sequence = 1;
  int64_t micro_batches = 1;  // per pipeline
  int64_t data = 1, pipeline = 1, tensor = 1;
};

// Throws Error for layers that the stages do not divide.
StepSeconds megatron_step(const MegatronRun& run, const MegatronEngine& engine, const Hardware& hardware);

}  // namespace fsdp::plan
