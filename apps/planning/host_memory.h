// Memory that the ranks of a host take, by the plan's arithmetic.
#pragma once

#include <vector>

#include "planning/model_parts.h"
#include "planning/planned_sharding.h"
#include "planning/run_plan.h"

namespace trainer {

// In bytes; of all ranks they may be more than 64 bits hold.
struct HostMemory {
  std::vector<fsdp::plan::StateMemory> model;  // by rank of the host
  double activations = 0;                      // per rank, that forward keeps until backward in memory
  double offloaded_activations = 0;            // and in files, which is in no sum
  double temporary = 0;                        // per rank, of other tensors, an estimate
  double process = 0;                          // per rank
  double program = 0;                          // of all ranks, once
  bool resumes_from_memory = false;            // --hot-restart: what ranks left lies beside what those after them make

  double of_rank(const fsdp::plan::StateMemory& plan) const;  // without the program
  double largest_rank() const;
  double total() const;
  double in_files() const;  // of all ranks, which is in no other sum
};

HostMemory host_memory(const RunPlan& plan, const ModelParts& parts);

// Bytes of tensors of a rank that are not activations: the total in memory at the peak, minus the activations' peak.
double other_tensor_bytes(const RunOptions& options, bool on_gpus);

// The host that needs most: its total alone, and the bytes in files.
double host_bytes(const RunPlan& plan);
double host_bytes_in_files(const RunPlan& plan);

}  // namespace trainer
