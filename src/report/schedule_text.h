// The text of ShardedModel::schedule: a model's units, and what a step does with them, made from plain facts.
//
// The text leaves out gathers where each rank holds whole units, and waits where there is one rank. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/record.h"

namespace fsdp::report {

struct UnitFacts {
  std::string name;
  int64_t numel = 0;                            // of its parameters
  int64_t full_bytes = 0;                       // of the full unit, padding included
  int64_t gather_bytes = 0;                     // that one gather brings to this rank
  int64_t reduction_bytes = 0;                  // that one reduction brings to this rank
  int64_t gather_wait = 0, reduction_wait = 0;  // of this rank in all steps, in nanoseconds
};

struct ScheduleFacts {
  std::string strategy;
  int ranks = 1;
  int shards = 1;                         // ranks that hold the model once
  int buffers = 0, gradient_buffers = 0;  // no buffers: gathers copy nothing
  bool tells_buffers = true;              // units share them: it matters which one a unit is gathered in
  bool tells_gradient_buffers = true;     // reductions do: it matters which one a unit's gradients are in
  std::vector<UnitFacts> units = {};
  std::vector<schedule::UnitId> evaluation = {};                  // the plan of a forward pass without gradients
  schedule::Step step = {};                                       // the last one
  int64_t steps = 0;                                              // that ended
  int64_t replica_wait = 0, agreement_wait = 0, reader_wait = 0;  // of this rank in all of them, in nanoseconds
};

std::string schedule_text(const ScheduleFacts& facts);

}  // namespace fsdp::report
