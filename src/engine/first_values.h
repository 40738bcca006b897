// The first values of parameters that have none yet: those of a deferred module that was sharded without them.
//
// A load gives the parameters values, or this does, those of an ordinary construction. Until then nothing may read
// them: the step machine refuses it. The model's lock covers all calls.
#pragma once

#include <torch/types.h>

#include <vector>

#include "engine/model_spec.h"
#include "engine/sharded_unit.h"

namespace fsdp::engine {

class FirstValues {
 public:
  // Before the units are made.
  explicit FirstValues(const ModelSpec& spec);

  bool are_missing() const { return !of_units_.empty(); }
  // For each parameter, in the order of the units.
  std::vector<bool> missing(const Units& units) const;
  // Makes and writes them, unit by unit, but for parameters that have values: `loaded` has a flag for each of the
  // model's. The caller has begun a write and publishes. A collective where rank 0's values go to all.
  void write(Units& units, collectives::Group& group, const std::vector<bool>& loaded);

 private:
  void write_unit(ShardedUnit& unit, const std::vector<torch::Tensor>& wanted, collectives::Group& group);

  bool from_rank0_;
  // For each unit and parameter the deferred tensor; undefined where there is a value. Empty: nothing is missing.
  std::vector<std::vector<torch::Tensor>> of_units_;
};

}  // namespace fsdp::engine
