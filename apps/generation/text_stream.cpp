#include "generation/text_stream.h"

#include <algorithm>
#include <string>

namespace trainer {

namespace {

constexpr size_t kLongestCharacter = 4;  // bytes of UTF-8 (RFC 3629)

size_t length_of_character(unsigned char first) {
  if (first >= 0xf0) return 4;
  if (first >= 0xe0) return 3;
  return first >= 0xc0 ? 2 : 1;
}

// True if the text may go on with its last character: its bytes are fewer than the first of them says, or tokenizers
// put U+FFFD there, as they do for a part of a character.
bool ends_within_character(std::string_view text) {
  if (text.ends_with("\xef\xbf\xbd")) return true;
  for (size_t back = 1; back <= std::min(text.size(), kLongestCharacter); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) != 0x80) return length_of_character(byte) > back;
  }
  return false;
}

}  // namespace

void TextStream::add(std::span<const int32_t> tokens) {
  pending_.insert(pending_.end(), tokens.begin(), tokens.end());
  if (!ends_within_character(text_of_pending(pending_.size()))) return show(pending_.size());
  // A token is one byte at least: the character that is not whole has no part in the tokens before the last three.
  const bool is_prompt = tokens.size() > 1;
  while (!is_prompt && pending_.size() >= kLongestCharacter) show(tokens_of_whole_characters());
}

void TextStream::end() {
  if (!pending_.empty()) show(pending_.size());
}

void TextStream::show(size_t count) {
  show_(text_of_pending(count));
  const auto last = pending_.begin() + static_cast<std::ptrdiff_t>(count);
  shown_.assign(pending_.begin(), last);
  pending_.erase(pending_.begin(), last);
}

size_t TextStream::tokens_of_whole_characters() const {
  const std::string text = text_of_pending(pending_.size());
  size_t count = 1;
  while (count < pending_.size() && !text.starts_with(text_of_pending(count))) ++count;
  return count;
}

std::string TextStream::text_of_pending(size_t count) const {
  std::vector<int32_t> all = shown_;
  all.insert(all.end(), pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(count));
  const size_t before = shown_.empty() ? 0 : tokenizer_.decode(shown_).size();
  const std::string text = tokenizer_.decode(all);
  return text.substr(std::min(before, text.size()));
}

}  // namespace trainer
