// Tokenizers of Hugging Face: tokenizer.json, and vocab.json with merges.txt as GPT-2 has them. The work is done by
// their own package, tokenizers (https://github.com/huggingface/tokenizers), in a process with Python that is started
// when it is first needed. There is no library of it for C and C++ in Debian.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "tokenizers/tokenizer.h"

namespace tokenizers {

// True if a Python with the package is found: FSDP_PYTHON, otherwise that of this project's .venv, or python3.
bool has_hugging_face();

// `json`: the text of a tokenizer.json; `name`: what messages call it. Throws fsdp::Error for one that is damaged, and
// where there is no Python for it. Bytes of a text that are no UTF-8 become U+FFFD.
std::shared_ptr<const Tokenizer> make_hugging_face(std::string json, const std::string& name);

// As above, from the contents of vocab.json and merges.txt.
std::shared_ptr<const Tokenizer> make_hugging_face(std::string_view vocabulary, std::string_view merges,
                                                   const std::string& name);

}  // namespace tokenizers
