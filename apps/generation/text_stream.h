// Text that is shown as its tokens come, in whole characters.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace trainer {

// A token may end within a character of UTF-8: then nothing is shown until the character is whole, or cannot become so.
class TextStream {
 public:
  using Show = std::function<void(std::string_view text)>;

  TextStream(const tokenizers::Tokenizer& tokenizer, Show show) : tokenizer_(tokenizer), show_(std::move(show)) {}

  void add(std::span<const int32_t> tokens);
  // Shows what is left, whole or not.
  void end();

 private:
  // Returns the text of the first `count` pending tokens.
  std::string text_of_pending(size_t count) const;
  // Shows the first `count` pending tokens.
  void show(size_t count);
  // Returns the least number of pending tokens, at least 1, after which a character ends.
  size_t tokens_of_whole_characters() const;

  const tokenizers::Tokenizer& tokenizer_;
  Show show_;
  std::vector<int32_t> shown_;    // the last that were shown: a token's text may depend on those before it
  std::vector<int32_t> pending_;  // those after them
};

}  // namespace trainer
