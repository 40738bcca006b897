#include "data/token_kind.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/error.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace data {

static_assert(std::endian::native == std::endian::little, "token files are read and written as they lie in memory");

const TokenFormat& format_of(TokenKind kind) {
  static constexpr int64_t kHeader = kHeaderNumbers * static_cast<int64_t>(sizeof(int32_t));
  static constexpr TokenFormat kFormats[] = {
      {.name = "nanogpt", .magic = 0, .version = 0, .header_bytes = 0, .token_bytes = 2},
      {.name = "llmc-gpt2", .magic = 20240520, .version = 1, .header_bytes = kHeader, .token_bytes = 2},
      {.name = "llmc-llama3", .magic = 20240801, .version = 7, .header_bytes = kHeader, .token_bytes = 4}};
  return kFormats[static_cast<size_t>(kind)];
}

TokenKind token_kind(const std::string& name) {
  std::vector<const char*> names;
  for (TokenKind kind : kTokenKinds) {
    if (name == format_of(kind).name) return kind;
    names.push_back(format_of(kind).name);
  }
  throw fsdp::Error(fmt::format("'{}' is no kind of token file; it must be one of {}.", name, fmt::join(names, ", ")));
}

namespace {

// llm.c's files begin with the date on which their form was made.
bool is_date(int32_t number) {
  const int32_t year = number / 10000, month = number / 100 % 100, day = number % 100;
  return year >= 2023 && year <= 2040 && month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

int32_t swapped(int32_t number) { return static_cast<int32_t>(__builtin_bswap32(static_cast<uint32_t>(number))); }

// Tokens that only look like the beginning of a header would hardly be followed by zeros.
bool ends_with_zeros(const std::array<int32_t, kHeaderNumbers>& header) {
  constexpr size_t kFirstUnused = 32;
  return std::all_of(header.begin() + kFirstUnused, header.end(), [](int32_t number) { return number == 0; });
}

}  // namespace

TokenKind recognise(std::string_view bytes, const std::string& name) {
  std::array<int32_t, kHeaderNumbers> header{};
  std::memcpy(header.data(), bytes.data(), std::min(bytes.size(), sizeof header));
  for (TokenKind kind : {TokenKind::kLlmcGpt2, TokenKind::kLlmcLlama3}) {
    if (header[0] == format_of(kind).magic) return kind;
  }
  for (TokenKind kind : {TokenKind::kLlmcGpt2, TokenKind::kLlmcLlama3}) {
    if (header[0] != swapped(format_of(kind).magic) || !ends_with_zeros(header)) continue;
    throw fsdp::Error(fmt::format("{} ({}) has its numbers' bytes the other way round. Write it again, little-endian.",
                                  name, format_of(kind).name));
  }
  if (bytes.size() >= sizeof header && is_date(header[0]) && ends_with_zeros(header)) {
    throw fsdp::Error(fmt::format(
        "{} begins with the number {}, as files of llm.c do, but not those with tokens: expected {} (GPT-2) or "
        "{} (Llama 3). Name a file of tokens.",
        name, header[0], format_of(TokenKind::kLlmcGpt2).magic, format_of(TokenKind::kLlmcLlama3).magic));
  }
  return TokenKind::kNanoGpt;
}

}  // namespace data
