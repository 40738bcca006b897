// Problems with a run's files that can be found before its ranks are started.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "fsdp-train/prepare.h"
#include "options/options.h"

namespace trainer {

struct Inputs {
  data::Corpus corpus;                // empty where nothing was named, or a text has to be encoded first
  std::vector<std::string> problems;  // every one that was found, a sentence each

  // Training windows of context + 1 tokens; none: no data is open.
  std::optional<int64_t> windows(int64_t context) const;
};

// For `train`: opens the data, and looks whether the checkpoint can be one and whether the run folder could be written.
// Takes moments, and writes nothing: of a text that has to be encoded, or on which a tokenizer has to be trained, it
// looks whether all is there for that.
Inputs read_inputs(const RunOptions& options);

// Encodes the text where read_inputs did not open one, and opens it; or takes from the cache what was encoded before.
// Returns what is wrong with it. A bar shows on a terminal how far it is.
std::vector<std::string> encode_text(const RunOptions& options, Inputs& inputs);

// A model whose tokens are bytes takes the tokenizer's vocabulary, unless --vocabulary says otherwise. Returns why the
// model cannot be trained on the data, empty when it can.
std::string fit_vocabulary(RunOptions& options, const data::Corpus& corpus);

// The values of --tokenizer, --validation and the like for `prepare`.
Preparation preparation_of(const PrepareOptions& options);

// True if the folder that --checkpoint or --resume names can be a checkpoint.
std::vector<std::string> checkpoint_problems(const RunOptions& options);

}  // namespace trainer
