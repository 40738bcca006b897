// Compares a checkpoint's settings with this run's.
#pragma once

#include <filesystem>
#include <string>

#include "run/first_rank.h"
#include "run/run_settings.h"
#include "training/run_notes.h"
#include "training/training.h"

namespace trainer {

struct OtherRun : AgreedError {
  using AgreedError::AgreedError;
};

enum class Settings { Kept, Free };  // true if the settings of the run must be the same

// The settings that differ from the checkpoint's. Throws OtherRun for some that are to be kept.
struct ComparedSettings {
  SettingsDifference differs;  // options and data
  std::string files;           // that hold the data, whose content may be the same
};
ComparedSettings compare_settings(const Training& training, const Notes& notes, const std::filesystem::path& checkpoint,
                                  Settings may);

// Throws OtherRun for a checkpoint whose moments are kept otherwise: they are converted only where that is asked for.
void check_optimizer_state(const Training& training, const Notes& notes, const std::filesystem::path& checkpoint,
                           Settings may);

}  // namespace trainer
