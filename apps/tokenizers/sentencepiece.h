// Tokens of sentencepiece models (Kudo and Richardson, 2018, https://arxiv.org/abs/1808.06226), as Llama 1 and 2, Gemma
// and T5 have them. The work is done by the library of that name; a build without it has no_sentencepiece.cpp here.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizers/tokenizer.h"

namespace tokenizers {

// True if this build has the library. Without it, what follows throws fsdp::Error that says so.
bool has_sentencepiece();
// Why it cannot be used, found out by loading it; empty where it can.
std::string sentencepiece_problem();

// `model`: the bytes of a model; `name`: what messages call it. Throws fsdp::Error when they are damaged.
std::shared_ptr<const Tokenizer> make_sentencepiece(std::string model, const std::string& name);

// The next sentence of a text, without its newline, in UTF-8 and of at most kLongestSentence bytes; it may change at
// the next call. None at the end.
using NextSentence = std::function<std::optional<std::string_view>()>;
inline constexpr size_t kLongestSentence = 4096;

// The bytes of a model trained on the sentences by byte-pair encoding (Sennrich, Haddow and Birch, 2016,
// https://arxiv.org/abs/1508.07909). It has a token for each byte, so that any text in UTF-8 is decoded to itself.
// `vocabulary` is the number of tokens, fewer where the text does not give as many. The same model for the same
// sentences. Throws fsdp::Error when the vocabulary is too small for the text's characters, or the text is too short.
std::string train_sentencepiece(const NextSentence& next, int64_t vocabulary);

}  // namespace tokenizers
