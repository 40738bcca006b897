// The kinds of token files that others write and read, little-endian all:
//
//   nanogpt      uint16 tokens and nothing else (https://github.com/karpathy/nanoGPT)
//   llmc-gpt2    256 int32: 20240520, 1, the number of tokens, zeros; then uint16 tokens
//   llmc-llama3  256 int32: 20240801, 7, the number of tokens, zeros; then uint32 tokens
//                (both https://github.com/karpathy/llm.c)
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace data {

enum class TokenKind { kNanoGpt, kLlmcGpt2, kLlmcLlama3 };

struct TokenFormat {
  const char* name;
  int32_t magic, version;  // 0 where there is no header
  int64_t header_bytes;
  int64_t token_bytes;

  int64_t limit() const { return int64_t{1} << (8 * token_bytes); }  // tokens are below it
};

inline constexpr std::array<TokenKind, 3> kTokenKinds = {TokenKind::kNanoGpt, TokenKind::kLlmcGpt2,
                                                         TokenKind::kLlmcLlama3};
inline constexpr int64_t kHeaderNumbers = 256;  // of int32

const TokenFormat& format_of(TokenKind kind);

// Throws fsdp::Error that lists the names.
TokenKind token_kind(const std::string& name);

// The kind of a file of these bytes, by its header. Throws fsdp::Error, which `name` begins, for a header of llm.c of
// another number than these, or with its bytes the other way round.
TokenKind recognise(std::string_view bytes, const std::string& name);

}  // namespace data
