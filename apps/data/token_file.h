// Token files of nanoGPT and llm.c (token_kind.h), memory-mapped.
#pragma once

#include <filesystem>

#include "data/mapped_file.h"
#include "data/token_kind.h"
#include "data/token_source.h"

namespace data {

// One file. Only its header is read when it is opened.
class TokenFile final : public TokenSource {
 public:
  // Throws fsdp::Error with the file, found and expected values. Errors are a cut header, an unknown number or version,
  // another number of tokens than in the file, half a token at the end, and no token.
  explicit TokenFile(const std::filesystem::path& path);

  TokenKind kind() const { return kind_; }
  int64_t size() const override { return size_; }
  int64_t limit() const override { return format_of(kind_).limit(); }
  void read(int64_t first, std::span<int64_t> tokens) const override;
  void read_several(std::span<const Reading> readings) const override;
  std::string where(int64_t position) const override;
  int64_t written() const override { return file_.written(); }
  void release() const override { file_.release(); }

 private:
  MappedFile file_;
  TokenKind kind_;
  int64_t size_;
};

struct TokenFiles {
  std::vector<std::filesystem::path> training, validation;  // each in the order of their names
};

// True if `data` names token files: a file *.bin, a pattern with * or ?, or a folder with files *.bin of which one is
// called after training or validation, or that holds a tokenizer.
bool names_token_files(const std::string& data);

// The files that such a name stands for. Those with "val" in their own name are for validation, as nanoGPT and llm.c
// call them. Throws fsdp::Error when there is none to train on.
TokenFiles find_token_files(const std::string& data);

// The files as one sequence, in their order. Throws fsdp::Error for the first that cannot be used.
Tokens open_token_files(const std::vector<std::filesystem::path>& files);

}  // namespace data
