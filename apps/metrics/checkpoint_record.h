// Records of the checkpoints that a run has saved.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "metrics/fields.h"

namespace trainer {

struct CheckpointRecord {
  int64_t step = 0;          // steps done
  double seconds = 0;        // as in StepRecord
  std::string folder = {};   // in the run's: "step-200", or "best"
  bool best = false;         // it has the lowest validation loss so far, and took the place of the best one before
  int64_t bytes = 0;         // of its files
  double save_seconds = 0;   // that saving took, in rank 0
  double pause_seconds = 0;  // of these, in which training waited
  int64_t kept = 0;          // folders step-N that the run has now
  std::vector<std::string> removed = {};  // folders that gave way to it, as --keep asks
};

// The `event` of their records.
inline constexpr const char* kCheckpointEvent = "checkpoint";

std::span<const Field> checkpoint_fields();

nlohmann::ordered_json to_json(const CheckpointRecord& checkpoint);

// Back from a record with a step. Fields that it lacks, or that are of another type, have their defaults.
CheckpointRecord checkpoint_from(const nlohmann::ordered_json& record);

}  // namespace trainer
