#include "data/cache.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "data/cache_entry.h"
#include "data/cache_lock.h"
#include "data/fingerprint.h"
#include "files/durable_file.h"
#include "tokenizers/sentencepiece.h"

namespace data {

namespace fs = std::filesystem;

namespace {

// Counts in each name: what is left by a version that encodes otherwise is not taken.
constexpr std::string_view kVersion = "4";

void add(Fingerprint& fingerprint, const TextPart& part) {
  const uint64_t text = part.size() > 0 ? part.text->fingerprint() : 0;
  fingerprint.add(fmt::format("{:x} {} {}", text, part.first, part.last));
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The lines of a text, or of every n-th of its pieces, so that no more than `most` bytes are given.
class Sentences {
 public:
  Sentences(const TextPart& text, int64_t most) : pieces_(text), stride_((text.size() + most - 1) / most) {}

  std::optional<std::string_view> next() {
    while (rest_.empty()) {
      if (!next_piece()) return std::nullopt;
    }
    std::string_view line = rest_.substr(0, rest_.find('\n'));
    if (line.size() > tokenizers::kLongestSentence) {
      line = line.substr(0, cut_of(line.substr(0, tokenizers::kLongestSentence)));
    }
    rest_.remove_prefix(line.size());
    if (rest_.starts_with('\n')) rest_.remove_prefix(1);
    return line;
  }

 private:
  bool next_piece() {
    for (;; ++number_) {
      piece_ = pieces_.next();
      if (!piece_) return false;
      if (number_ % stride_ != 0) continue;
      ++number_;
      rest_ = piece_->text;
      return true;
    }
  }

  TextPieces pieces_;
  int64_t stride_, number_ = 0;
  std::optional<TextPieces::Piece> piece_;
  std::string_view rest_;
};

}  // namespace

fs::path cache_folder() {
  if (const std::string own = environment("FSDP_CACHE"); !own.empty()) return own;
  if (const std::string all = environment("XDG_CACHE_HOME"); !all.empty()) return fs::path(all) / "fsdp";
  if (const std::string home = environment("HOME"); !home.empty()) return fs::path(home) / ".cache" / "fsdp";
  return "fsdp-cache";
}

fs::path cached_token_folder(const fs::path& cache, const TextSplit& text, const tokenizers::Tokenizer& tokenizer,
                             int threads, const OnProgress& progress) {
  Fingerprint key;
  key.add(kVersion);
  add(key, text.training);
  add(key, text.validation);
  key.add(tokenizer.file().bytes);
  const fs::path folder = cache / token_entry(key);
  const CacheLock lock(cache);
  if (is_there(folder)) {
    check_token_entry(folder);
    return folder;
  }
  const bool narrow = tokenizer.vocabulary() <= format_of(TokenKind::kNanoGpt).limit();
  const TokenKind kind = narrow ? TokenKind::kNanoGpt : TokenKind::kLlmcLlama3;
  write_token_folder({.path = folder, .kind = kind, .threads = threads}, text, tokenizer, progress);
  return folder;
}

std::shared_ptr<const tokenizers::Tokenizer> cached_tokenizer(const fs::path& cache, const TextPart& text,
                                                              int64_t vocabulary) {
  Fingerprint key;
  key.add(kVersion);
  add(key, text);
  const fs::path model = cache / model_entry(vocabulary, key);
  const CacheLock lock(cache);
  if (!is_there(model)) {
    Sentences sentences(text, kTrainingBytes);
    fsdp::files::write_durably(model, tokenizers::train_sentencepiece([&] { return sentences.next(); }, vocabulary));
  }
  return read_model_entry(model, vocabulary);
}

}  // namespace data
