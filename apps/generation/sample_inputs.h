// The inputs of `fsdp-train sample`, found and read before ranks are started.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "options/command_line.h"
#include "run/newest_checkpoint.h"
#include "tokenizers/tokenizer.h"

namespace trainer {

struct SampleInputs {
  std::filesystem::path folder;  // of a checkpoint, or of an exported model
  NewestCheckpoint checkpoint;   // the same, with its possible replacements; empty: an exported model
  bool is_exported = false;
  std::shared_ptr<const tokenizers::Tokenizer> tokenizer;
  std::string prompt;
  std::vector<std::string> problems;  // every one that was found, a sentence each; the rest counts where there is none
};

// --checkpoint: the newest checkpoint of a run, or the folder itself. The tokenizer: as asked for, otherwise the one in
// that folder or in the run's, otherwise as configured. The prompt: as asked for; from `standard_input` where that is
// asked for with "-", or is a pipe or a file and nothing is asked for; otherwise as configured.
SampleInputs read_sample_inputs(const CommandLine& line, int standard_input = 0);

}  // namespace trainer
