// The tokens that need no model: each byte of the text is one.
#pragma once

#include <memory>

#include "tokenizers/tokenizer.h"

namespace tokenizers {

// A vocabulary of 256, and no token that ends a text.
std::shared_ptr<const Tokenizer> make_bytes();

}  // namespace tokenizers
