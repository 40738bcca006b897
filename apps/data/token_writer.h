// Writes token files of nanoGPT and llm.c (token_kind.h).
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "data/token_kind.h"
#include "files/durable_file.h"

namespace data {

// The tokens are streamed; the file has its name when it is complete and on the disk, and leaves nothing behind
// otherwise. One thread at a time.
class TokenWriter {
 public:
  TokenWriter(const std::filesystem::path& file, TokenKind kind);

  // Throws fsdp::Error for a token that the kind has no room for, for more tokens than its header can tell (2^31 - 1),
  // or when the disk is full.
  void append(std::span<const int32_t> tokens);
  void commit();

  int64_t size() const { return size_; }  // tokens

 private:
  void write_header();

  std::string name_;  // token file 'train.bin'
  fsdp::files::ReplacedFile file_;
  TokenKind kind_;
  int64_t size_ = 0;
};

}  // namespace data
