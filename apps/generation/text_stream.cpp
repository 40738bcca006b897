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

// Whether the text may go on with its last character: its bytes are fewer than the first of them says, or tokenizers
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
  const std::string text = text_of_pending();
  // A token is one byte at least: more of them than a character has bytes do not wait for its end.
  const bool waits = pending_.size() < kLongestCharacter || tokens.size() > 1;
  if (waits && ends_within_character(text)) return;
  show_(text);
  shown_.swap(pending_);
  pending_.clear();
}

void TextStream::end() {
  if (!pending_.empty()) show_(text_of_pending());
  pending_.clear();
}

std::string TextStream::text_of_pending() const {
  std::vector<int32_t> all = shown_;
  all.insert(all.end(), pending_.begin(), pending_.end());
  const size_t before = shown_.empty() ? 0 : tokenizer_.decode(shown_).size();
  const std::string text = tokenizer_.decode(all);
  return text.substr(std::min(before, text.size()));
}

}  // namespace trainer
