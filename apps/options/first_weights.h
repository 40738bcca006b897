// --init-from with the folder of a run, of one of its checkpoints, or of the model that it exported.
#pragma once

#include <filesystem>
#include <string>

#include "options/command_line.h"
#include "options/configuration_file.h"

namespace trainer {

// The run that the weights in `path` are of; empty: they are of none.
std::filesystem::path run_of_weights(const std::string& path);

// The weights of a run come with its shape and its tokenizer. Options of the model that are not in `given` take the
// run's values, as if they were chosen, and --tokenizer becomes the run's folder. Nothing changes if `given` has a
// shape:
// --model, --width, --layers or --heads.
void settle_first_weights(const Rows& given, CommandLine& line);

}  // namespace trainer
