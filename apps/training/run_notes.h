// The notes of a run's checkpoints: what the training loop, and not the library, keeps in them.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "run/resume_state.h"
#include "training/training.h"

namespace trainer {

using Notes = std::map<std::string, std::string>;

inline constexpr const char* kSettings = "settings";  // the note with the run's settings (run_settings.h)

// The notes of a checkpoint as rank 0 reads them, on every rank. A collective.
Notes notes_of(fsdp::World& world, const std::filesystem::path& checkpoint);
// Rank 0's notes on every rank, where each rank already has its own. A collective.
Notes notes_of_first_rank(fsdp::World& world, const Notes& own);

// The state of the loop, and that of the scaler with it.
Notes notes_of_run(const Training& training, ResumeState state);
// And back: the scaler has its state again.
ResumeState state_of_run(Training& training, const Notes& notes);

}  // namespace trainer
