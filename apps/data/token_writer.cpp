#include "data/token_writer.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <array>
#include <limits>
#include <string>
#include <string_view>

namespace data {

namespace {

template <typename Stored>
void narrow(std::span<const int32_t> tokens, std::string& bytes) {
  for (int32_t token : tokens) {
    const auto stored = static_cast<Stored>(token);
    bytes.append(reinterpret_cast<const char*>(&stored), sizeof stored);
  }
}

}  // namespace

TokenWriter::TokenWriter(const std::filesystem::path& file, TokenKind kind)
    : name_(fmt::format("token file '{}'", file.string())), file_(file, name_), kind_(kind) {
  // Room for the header, which is written at the end: until then the file is no token file.
  file_.file().append(std::string(static_cast<size_t>(format_of(kind).header_bytes), '\0'));
}

void TokenWriter::append(std::span<const int32_t> tokens) {
  const TokenFormat& format = format_of(kind_);
  for (int32_t token : tokens) {
    if (token < 0 || token >= format.limit()) {
      throw fsdp::Error(fmt::format("{}: token {} does not fit into the kind {}: expected 0 to {}. Use the kind {}.",
                                    name_, token, format.name, format.limit() - 1,
                                    format_of(TokenKind::kLlmcLlama3).name));
    }
  }
  size_ += static_cast<int64_t>(tokens.size());
  if (format.header_bytes > 0 && size_ > std::numeric_limits<int32_t>::max()) {
    throw fsdp::Error(
        fmt::format("{}: the kind {} holds at most {} tokens. Use the kind {}, or prepare the text in parts.", name_,
                    format.name, std::numeric_limits<int32_t>::max(), format_of(TokenKind::kNanoGpt).name));
  }
  std::string bytes;
  bytes.reserve(tokens.size() * static_cast<size_t>(format.token_bytes));
  format.token_bytes == 2 ? narrow<uint16_t>(tokens, bytes) : narrow<uint32_t>(tokens, bytes);
  file_.file().append(bytes);
}

void TokenWriter::write_header() {
  const TokenFormat& format = format_of(kind_);
  std::array<int32_t, kHeaderNumbers> header{format.magic, format.version, static_cast<int32_t>(size_)};
  file_.file().overwrite_beginning({reinterpret_cast<const char*>(header.data()), sizeof header});
}

void TokenWriter::commit() {
  if (format_of(kind_).header_bytes > 0) write_header();
  file_.commit();
}

}  // namespace data
