// Text that a model writes.
#pragma once

#include <string>

#include "models/language_model.h"
#include "options/options.h"
#include "tokenizers/tokenizer.h"

namespace trainer {

// The prompt and what the model makes of it: at most --sample-length tokens, drawn with --temperature and --top-k from
// a generator of its own, so that the text depends on the weights and --seed alone; fewer where the model ends the
// text. An empty prompt is the token that ends a text, or a newline. `device` is the model's. Every rank of a sharded
// model calls it.
std::string generate(models::LanguageModel& model, const tokenizers::Tokenizer& tokenizer, const Options& options,
                     torch::Device device = torch::kCPU);

}  // namespace trainer
