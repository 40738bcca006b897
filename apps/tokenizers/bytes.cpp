#include "tokenizers/bytes.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include "files/json.h"

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

// GPT-2's characters for bytes. A visible byte stands for itself; the others stand for 256 and up, in their order.
bool shows(int byte) { return (byte > 32 && byte < 127) || (byte > 160 && byte != 173); }

std::string utf8_of(int character) {  // below 0x800
  if (character < 128) return std::string(1, static_cast<char>(character));
  return {static_cast<char>(0xc0 | character >> 6), static_cast<char>(0x80 | (character & 0x3f))};
}

}  // namespace

std::string bytes_as_hugging_face() {
  using fsdp::files::OrderedJson;
  OrderedJson vocabulary;
  int other = 256;
  for (int byte = 0; byte < 256; ++byte) vocabulary[utf8_of(shows(byte) ? byte : other++)] = byte;
  const OrderedJson byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  const OrderedJson json = {{"version", "1.0"},
                            {"truncation", nullptr},
                            {"padding", nullptr},
                            {"added_tokens", OrderedJson::array()},
                            {"normalizer", nullptr},
                            {"pre_tokenizer", byte_level},
                            {"post_processor", nullptr},
                            {"decoder", byte_level},
                            {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", OrderedJson::array()}}}};
  return json.dump(2) + "\n";
}

std::shared_ptr<const Tokenizer> make_bytes() { return std::make_shared<Bytes>(); }

}  // namespace tokenizers
