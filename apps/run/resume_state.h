// State that the training loop itself keeps between a checkpoint and the step after it.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>

namespace trainer {

struct ResumeState {
  double loss_scale = 0;  // of an fp16 run; 0: it had none
  int64_t finite_steps = 0;
  double best_validation_loss = std::numeric_limits<double>::infinity();
  int64_t best_step = 0;  // after which it was measured; 0: none was
  int64_t validations_since_best = 0;
};

// As the notes of a checkpoint (fsdp/checkpoint.h), and back. Fields that the notes lack keep their default: a
// checkpoint may come from another program. Throws fsdp::Error for notes that are damaged: no numbers, or none that a
// run can have.
std::map<std::string, std::string> to_notes(const ResumeState& state);
ResumeState from_notes(const std::map<std::string, std::string>& notes);

}  // namespace trainer
