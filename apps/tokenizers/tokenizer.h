// Between text and the ids of its tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tokenizers {

// Immutable once made: threads may share one.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string name() const = 0;  // "bytes", or the path of a model
  virtual int64_t vocabulary() const = 0;
  // Ids of 0 .. vocabulary()-1. Text cut at the end of a line, before a line without a leading space, has the same
  // tokens as uncut. Models that begin each text with a space of their own are the exception.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  // The tokens of each text; `threads` work on them.
  virtual std::vector<std::vector<int32_t>> encode_several(std::span<const std::string_view> texts, int threads) const;
  // How many texts encode_several wants at a time, so that no thread waits long for the others.
  virtual size_t texts_at_once(int threads) const;
  // The text of the tokens; control tokens have none. Throws fsdp::Error for an id outside of the vocabulary.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;
  // The token that ends a document, if there is one.
  virtual std::optional<int32_t> end_of_text() const = 0;

  // The bytes of a file that make_tokenizer makes this tokenizer from again. Tokenizers with the same bytes give
  // the same tokens.
  struct File {
    std::string name;
    std::string bytes;
  };
  virtual File file() const = 0;
};

// "bytes", or the path of a sentencepiece model, of a tokenizer.json of Hugging Face, or of a file of this program.
// Also a folder with one of them as tokenizer.model or tokenizer.json, or with vocab.json and merges.txt. Throws
// fsdp::Error that names what is missing, damaged or unknown.
std::shared_ptr<const Tokenizer> make_tokenizer(const std::string& name);

// True if make_tokenizer would find one in `folder`.
bool has_tokenizer(const std::filesystem::path& folder);

}  // namespace tokenizers
