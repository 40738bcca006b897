// The ranks of a pipeline agree on a step before it begins, and on its result when it ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fsdp/world.h"
#include "pipeline/stage_layout.h"
#include "stages/timing.h"

namespace fsdp::pipeline {

// A hash of the blocks' names, the ties, the cuts and the options.
uint64_t fingerprint(const std::vector<PipelineBlock>& blocks, const PipelineOptions& options,
                     const StageLayout& layout);

// A rank's call of step or forward.
struct CallFacts {
  size_t inputs = 0;
  std::optional<size_t> targets;  // none: forward
  uint64_t fingerprint = 0;
  bool sharded = false;
  bool has_parameters = true;  // this rank's stages
  uint64_t random_number = 0;  // of StepRandomness
};
struct Agreement {
  int micro_batches = 0;
  uint64_t random_number = 0;  // that of the first rank
};

// A rank of the axis as messages name it: by its number in the job.
int name_of_rank(const World& axis, int rank);

// The number of micro-batches: of inputs on the rank of the first stage, and of targets on that of the last, if the
// call has targets. A collective. Throws Error on every rank if they differ or are 0, and if ranks differ in their
// fingerprints or in whether their stages are sharded, and for sharded stages if a rank has no parameters.
Agreement agree_on_call(World& axis, const StageLayout& layout, const CallFacts& own);

// A rank's part in a step.
struct StepPart {
  double loss = 0;            // the sum over micro-batches; on the rank of the last stage
  stages::StageTimes passes;  // seconds of all passes of the step, by their kind
  double seconds = 0;         // from the first action to the end of the last
};
// By rank. A collective.
std::vector<StepPart> exchange_parts(World& axis, const StepPart& own);

// The sum of all ranks' values. A collective.
std::vector<double> sum_over_ranks(World& axis, const std::vector<double>& values);

}  // namespace fsdp::pipeline
