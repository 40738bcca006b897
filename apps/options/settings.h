// The resolved configuration of a run, for people and for programs.
#pragma once

#include <string>

#include "data/corpus.h"
#include "options/option_table.h"
#include "options/options.h"

namespace trainer {

// Aligned lines, each ended by a newline. `places` says on which hosts the ranks of a mesh lie; it may be empty.
std::string settings_table(const RunOptions& options, const data::Corpus& corpus, const std::string& places = "");

// The value of an option as settings_json has it: a text as it is, all else as JSON.
std::string setting_text(const Row& row, const RunOptions& options);

// One JSON object, indented, ended by a newline; its keys are the options' names, with what follows from them:
// parameters, tokens_per_step, and the shape of the model.
std::string settings_json(const RunOptions& options);

}  // namespace trainer
