// The end of a run in TensorBoard's files, which a run that goes on has not reached any more.
#pragma once

#include <filesystem>

namespace trainer {

// Takes the record of an end (hyperparameters.h) from the end of each event file in `folder`: of several, TensorBoard
// believes the first. Other files, and files with another end, stay as they are.
void take_back_ends(const std::filesystem::path& folder);

}  // namespace trainer
