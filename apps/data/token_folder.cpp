#include "data/token_folder.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include "data/file_list.h"
#include "data/pending_folder.h"
#include "files/durable_file.h"

namespace data {

namespace fs = std::filesystem;

void check_kind(TokenKind kind, const tokenizers::Tokenizer& tokenizer) {
  const TokenFormat& format = format_of(kind);
  if (tokenizer.vocabulary() <= format.limit()) return;
  throw fsdp::Error(fmt::format(
      "tokenizer '{}' has {} tokens, and files of the kind {} have room for {}. Use the kind {}.", tokenizer.name(),
      tokenizer.vocabulary(), format.name, format.limit(), format_of(TokenKind::kLlmcLlama3).name));
}

TokenCounts write_token_folder(const TokenFolder& folder, const TextSplit& text, const tokenizers::Tokenizer& tokenizer,
                               const OnProgress& progress) {
  check_kind(folder.kind, tokenizer);
  PendingFolder pending(folder.path);
  const int64_t total = text.training.size() + text.validation.size();
  auto write = [&](const TextPart& part, const char* name, int64_t done_before) -> int64_t {
    if (part.size() == 0) return 0;
    TokenWriter writer(pending.path() / name, folder.kind);
    encode(part, tokenizer, folder.threads, writer, [&](int64_t done, int64_t) {
      if (progress) progress(done_before + done, total);
    });
    writer.commit();
    return writer.size();
  };
  TokenCounts counts;
  counts.training = write(text.training, "train.bin", 0);
  counts.validation = write(text.validation, "val.bin", text.training.size());
  const tokenizers::Tokenizer::File file = tokenizer.file();
  fsdp::files::write_durably(pending.path() / file.name, file.bytes);
  write_file_list(pending.path());
  pending.commit();
  return counts;
}

}  // namespace data
