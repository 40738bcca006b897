// What can be found wrong with a run's files before its ranks are started.
#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "options.h"

namespace trainer {

struct Inputs {
  data::Corpus corpus;
  std::vector<std::string> problems;  // every one that was found, a sentence each
};

// Opens the text, and looks whether the checkpoint can be one and whether the run folder could be written. Writes
// nothing.
Inputs read_inputs(const Options& options);

}  // namespace trainer
