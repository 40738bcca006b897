// Samples of a run that is trained: text that its model writes.
#pragma once

#include <fsdp/world.h>

#include <string>

#include "generation/writer.h"
#include "options/options.h"
#include "tokenizers/tokenizer.h"

namespace trainer {

// The prompt and what the model makes of it (writer.h), by --seed. `device` is the model's.
std::string generate(const WritingModel& model, const tokenizers::Tokenizer& tokenizer, const WritingOptions& options,
                     torch::Device device = torch::kCPU);

// On rank 0; empty elsewhere.
struct SharedSample {
  std::string text;
  std::string problem;  // of the tokenizer, whose text this is not; a run goes on without a sample
};

// As above, of a sharded model. Rank 0 alone asks the tokenizer. A collective.
SharedSample generate_together(fsdp::World& world, const WritingModel& model, const tokenizers::Tokenizer& tokenizer,
                               const WritingOptions& options);

}  // namespace trainer
