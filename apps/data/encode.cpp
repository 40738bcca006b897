#include "data/encode.h"

#include <algorithm>

#include "data/utf8.h"

namespace data {

namespace {

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }  // RFC 3629

bool is_space(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

// After the last newline, in the second half of the text, that no space follows: tokens such as GPT-2's take spaces
// together, over the ends of lines. 0: there is none.
size_t line_between_words(std::string_view text) {
  for (size_t next = text.size(); next > text.size() / 2; --next) {
    if (next < text.size() && text[next - 1] == '\n' && !is_space(text[next])) return next;
  }
  return 0;
}

}  // namespace

size_t cut_of(std::string_view text) {
  if (const size_t line = line_between_words(text); line > 0) return line;
  if (const size_t newline = text.rfind('\n'); newline != std::string::npos) return newline + 1;
  if (const size_t space = text.rfind(' '); space != std::string::npos && space > 0) return space;
  constexpr size_t kLongestCharacter = 4;
  size_t cut = text.size() - 1;
  while (cut > 0 && text.size() - cut < kLongestCharacter && continues_character(text[cut])) --cut;
  return std::max<size_t>(cut, 1);
}

std::optional<TextPieces::Piece> TextPieces::next() {
  if (next_ >= part_.last) return std::nullopt;
  const int64_t end_of_file = part_.text->end_of_file(next_);
  const int64_t end = std::min(end_of_file, part_.last);
  Piece piece{.text = std::string(static_cast<size_t>(std::min(end - next_, kPieceBytes)), '\0'),
              .ends_file = false,
              .first = next_};
  part_.text->read(next_, piece.text);
  if (next_ + static_cast<int64_t>(piece.text.size()) < end) piece.text.resize(cut_of(piece.text));
  next_ += static_cast<int64_t>(piece.text.size());
  piece.ends_file = next_ == end_of_file;
  return piece;
}

namespace {

std::vector<std::string_view> texts_of(const std::vector<TextPieces::Piece>& pieces) {
  std::vector<std::string_view> texts;
  for (const TextPieces::Piece& piece : pieces) texts.emplace_back(piece.text);
  return texts;
}

}  // namespace

void Utf8Check::look(const TextFiles& text, const TextPieces::Piece& piece) {
  const size_t valid = valid_utf8_bytes(piece.text);
  if (valid == piece.text.size()) return;
  const int64_t end = text.end_of_file(piece.first);
  if (text_ == &text && end_ == end) return;
  text_ = &text;
  end_ = end;
  files_.add(text.place(piece.first + static_cast<int64_t>(valid)));
}

void encode(const TextPart& part, const tokenizers::Tokenizer& tokenizer, int threads, TokenWriter& writer,
            Utf8Check& check, const OnProgress& progress) {
  const std::optional<int32_t> end_of_text = tokenizer.end_of_text();
  TextPieces pieces(part);
  int64_t done = 0;
  for (std::optional<TextPieces::Piece> piece = pieces.next(); piece;) {
    std::vector<TextPieces::Piece> together;
    for (; piece && together.size() < tokenizer.texts_at_once(threads); piece = pieces.next()) {
      check.look(*part.text, *piece);
      together.push_back(std::move(*piece));
    }
    const std::vector<std::string_view> texts = texts_of(together);
    const std::vector<std::vector<int32_t>> encoded = tokenizer.encode_several(texts, threads);
    for (size_t i = 0; i < together.size(); ++i) {
      writer.append(encoded[i]);
      if (together[i].ends_file && end_of_text) writer.append({&*end_of_text, 1});
      done += static_cast<int64_t>(together[i].text.size());
    }
    if (progress) progress(done, part.size());
  }
}

}  // namespace data
