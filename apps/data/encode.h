// From text to tokens, in pieces: texts need not fit into memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_files.h"
#include "data/token_writer.h"
#include "tokenizers/tokenizer.h"

namespace data {

// Where to cut a text that continues beyond these bytes, at least two of them. First choice: after the last newline of
// the second half without a space behind it. Otherwise after the last newline, before the last space, or before the
// last character of UTF-8. Above 0.
size_t cut_of(std::string_view text);

// Cuts a part of a text into pieces of at most kPieceBytes, each at the end of a file or by cut_of.
class TextPieces {
 public:
  static constexpr int64_t kPieceBytes = 65536;

  explicit TextPieces(const TextPart& part) : part_(part), next_(part.first) {}

  struct Piece {
    std::string text;
    bool ends_file;
    int64_t first;  // where it begins
  };
  std::optional<Piece> next();

 private:
  TextPart part_;
  int64_t next_;
};

// Finds files that are not UTF-8, as their pieces come by in their order.
class Utf8Check {
 public:
  void look(const TextFiles& text, const TextPieces::Piece& piece);
  const Seen& files() const { return files_; }

 private:
  Seen files_;
  const TextFiles* text_ = nullptr;  // of the last one
  int64_t end_ = -1;
};

// Told of the bytes that are done and of all; may throw, and so end the work.
using OnProgress = std::function<void(int64_t done, int64_t total)>;

// Appends the tokens of the text, and after each of its files the token that ends a text, if the tokenizer has one.
// `threads` encode pieces at the same time; the tokens do not depend on how many. `check` sees all of the text.
// `progress` may be empty.
void encode(const TextPart& part, const tokenizers::Tokenizer& tokenizer, int threads, TokenWriter& writer,
            Utf8Check& check, const OnProgress& progress);

}  // namespace data
