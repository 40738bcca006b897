// The tokenizer beside an exported model.
#pragma once

#include <filesystem>

#include "tokenizers/tokenizer.h"

namespace trainer {

// Writes the tokenizer's file into the folder of a model, and for one of Hugging Face the tokenizer_config.json with
// which transformers takes it as it is. Bytes become one of Hugging Face. Throws fsdp::Error.
void export_tokenizer(const std::filesystem::path& folder, const tokenizers::Tokenizer& tokenizer, int64_t context);

}  // namespace trainer
