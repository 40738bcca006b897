#include "tokenizers/bytes.h"

#include <fmt/format.h>
#include <fsdp/error.h>

namespace tokenizers {

namespace {

class Bytes final : public Tokenizer {
 public:
  std::string name() const override { return "bytes"; }
  int64_t vocabulary() const override { return 256; }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> tokens;
    tokens.reserve(text.size());
    for (char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    return tokens;
  }

  std::string decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (int32_t token : tokens) {
      if (token < 0 || token >= vocabulary()) {
        throw fsdp::Error(fmt::format("token {} is no byte: expected 0 to 255.", token));
      }
      text.push_back(static_cast<char>(token));
    }
    return text;
  }

  std::optional<int32_t> end_of_text() const override { return std::nullopt; }
  File file() const override { return {.name = "tokenizer.json", .bytes = "{\"tokenizer\": \"bytes\"}\n"}; }
};

}  // namespace

std::shared_ptr<const Tokenizer> make_bytes() { return std::make_shared<Bytes>(); }

}  // namespace tokenizers
