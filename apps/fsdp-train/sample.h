// Text from a trained model.
#pragma once

#include <string>

#include "models/language_model.h"
#include "options.h"

namespace trainer {

// The prompt and `sample_length` bytes that may follow it, drawn one by one by temperature and top-k. Every rank of a
// sharded model calls this together and with the same options: all run the same number of forward passes, whatever is
// drawn, and draw the same bytes.
std::string sample(models::LanguageModel& model, const Options& options);

}  // namespace trainer
