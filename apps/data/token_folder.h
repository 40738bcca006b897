// A folder with the tokens of a text: train.bin, val.bin where text is held back, the tokenizer's own file, text.json
// with what was found while the text was read, and the list of these (file_list.h). It is what `prepare` leaves and
// what caches hold; find_token_files (token_file.h) and make_tokenizer read it.
//
//   {"files_not_utf8": 1, "first_not_utf8": "poems/a.txt, byte 17"}
#pragma once

#include <filesystem>
#include <optional>

#include "data/encode.h"

namespace data {

struct TokenFolder {
  std::filesystem::path path = {};
  TokenKind kind = TokenKind::kNanoGpt;
  int threads = 1;  // that encode
};

struct TokenCounts {
  int64_t training = 0, validation = 0;
  Seen not_utf8 = {};  // files
};

// Writes the folder, which has to be absent or empty: all of it or, when something fails, nothing. Throws fsdp::Error.
TokenCounts write_token_folder(const TokenFolder& folder, const TextSplit& text, const tokenizers::Tokenizer& tokenizer,
                               const OnProgress& progress);

// The files that were not UTF-8, by the text.json of a folder; none: it has no such file, or a damaged one.
std::optional<Seen> files_not_utf8_of(const std::filesystem::path& folder);

// Throws fsdp::Error when the kind has no room for the tokenizer's vocabulary.
void check_kind(TokenKind kind, const tokenizers::Tokenizer& tokenizer);

}  // namespace data
