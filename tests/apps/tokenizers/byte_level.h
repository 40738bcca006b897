// A small tokenizer of GPT-2's kind: the 256 bytes, a few merges, and <|endoftext|> as the last token.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

class ByteLevel {
 public:
  // Each merge joins two tokens that are there; a space is written as GPT-2's files have it, "\xc4\xa0".
  explicit ByteLevel(const std::vector<std::pair<std::string, std::string>>& merges) {
    for (int byte = 0; byte < 256; ++byte) {
      if (shows(byte)) add(character(byte));
    }
    for (int other = 0; other < 256 - shown_; ++other) add(character(256 + other));
    for (const auto& [left, right] : merges) {
      add(left + right);
      merges_.push_back(left + " " + right);
    }
    vocabulary_["<|endoftext|>"] = vocabulary_.size();
  }

  int32_t id(const std::string& token) const { return vocabulary_.at(token).get<int32_t>(); }
  int64_t size() const { return static_cast<int64_t>(vocabulary_.size()); }
  std::string vocab_json() const { return vocabulary_.dump(); }
  std::string merges_txt() const {
    std::string text = "#version: 0.2\n";
    for (const std::string& merge : merges_) text += merge + "\n";
    return text;
  }
  nlohmann::json tokenizer() const {
    const nlohmann::json byte_level = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
    const nlohmann::json end = {
        {"id", id("<|endoftext|>")}, {"content", "<|endoftext|>"}, {"single_word", false}, {"lstrip", false},
        {"rstrip", false},           {"normalized", false},        {"special", true}};
    const nlohmann::json model = {{"type", "BPE"}, {"vocab", vocabulary_}, {"merges", merges_}};
    return {{"version", "1.0"},      {"truncation", nullptr},       {"padding", nullptr},
            {"model", model},        {"added_tokens", {end}},       {"normalizer", nullptr},
            {"decoder", byte_level}, {"pre_tokenizer", byte_level}, {"post_processor", nullptr}};
  }
  std::string tokenizer_json() const { return tokenizer().dump(); }

 private:
  static bool shows(int byte) { return (byte > 32 && byte < 127) || (byte > 160 && byte != 173); }
  static std::string character(int code) {  // in UTF-8, below 0x800
    if (code < 128) return std::string(1, static_cast<char>(code));
    return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
  }
  void add(const std::string& token) { vocabulary_[token] = vocabulary_.size(); }

  static constexpr int shown_ = 188;
  nlohmann::ordered_json vocabulary_;
  std::vector<std::string> merges_;
};

// The words of some_text (sentences.h) have tokens of their own, spaces before them.
inline ByteLevel some_byte_level() {
  return ByteLevel({{"t", "h"}, {"th", "e"}, {"\xc4\xa0", "the"}, {"\xc4\xa0", "w"}, {"o", "r"}, {"\xc4\xa0", "n"}});
}
