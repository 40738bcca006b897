// The tokens that need no model: each byte of the text is one.
#pragma once

#include <memory>
#include <string>

#include "tokenizers/tokenizer.h"

namespace tokenizers {

// A vocabulary of 256, and no token that ends a text.
std::shared_ptr<const Tokenizer> make_bytes();

// A tokenizer.json of Hugging Face with the same tokens, for programs that read its format: byte-level BPE without
// merges, whose ids are the bytes. make_tokenizer makes bytes of it.
std::string bytes_as_hugging_face();

}  // namespace tokenizers
