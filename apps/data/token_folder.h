// A folder with the tokens of a text: train.bin, val.bin where text is held back, the tokenizer's own file, and the
// list of these (file_list.h). It is what `prepare` leaves and what caches hold; find_token_files (token_file.h) and
// make_tokenizer read it.
#pragma once

#include <filesystem>

#include "data/encode.h"

namespace data {

struct TokenFolder {
  std::filesystem::path path = {};
  TokenKind kind = TokenKind::kNanoGpt;
  int threads = 1;  // that encode
};

struct TokenCounts {
  int64_t training = 0, validation = 0;
};

// Writes the folder, which has to be absent or empty: all of it or, when something fails, nothing. Throws fsdp::Error.
TokenCounts write_token_folder(const TokenFolder& folder, const TextSplit& text, const tokenizers::Tokenizer& tokenizer,
                               const OnProgress& progress);

// Throws fsdp::Error when the kind has no room for the tokenizer's vocabulary.
void check_kind(TokenKind kind, const tokenizers::Tokenizer& tokenizer);

}  // namespace data
