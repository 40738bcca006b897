#include "data/token_folder.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include "data/file_list.h"
#include "data/pending_folder.h"
#include "files/durable_file.h"
#include "files/json.h"
#include "files/printable.h"

namespace data {

namespace fs = std::filesystem;

namespace {

constexpr const char *kTextFile = "text.json", *kNotUtf8 = "files_not_utf8", *kFirst = "first_not_utf8";

std::string text_json(const Seen& not_utf8) {
  fsdp::files::OrderedJson json = {{kNotUtf8, not_utf8.count}};
  if (not_utf8.count > 0) json[kFirst] = not_utf8.example;
  return json.dump() + "\n";
}

}  // namespace

std::optional<Seen> files_not_utf8_of(const fs::path& folder) try {
  constexpr int64_t kMostBytes = 1 << 16, kMostFiles = int64_t{1} << 53;
  const std::string name = (folder / kTextFile).string();  // the message is not used
  const fsdp::files::Json json = fsdp::files::read_json(folder / kTextFile, name, kMostBytes);
  const int64_t count = fsdp::files::whole_number(json, kNotUtf8, name, 0, kMostFiles);
  const auto first = json.find(kFirst);
  const bool has_first = first != json.end() && first->is_string();
  return Seen{.count = count, .example = has_first ? fsdp::files::printable(first->get<std::string>()) : "?"};
} catch (const fsdp::Error&) {
  return std::nullopt;
}

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
  Utf8Check check;
  auto write = [&](const TextPart& part, const char* name, int64_t done_before) -> int64_t {
    if (part.size() == 0) return 0;
    TokenWriter writer(pending.path() / name, folder.kind);
    encode(part, tokenizer, folder.threads, writer, check, [&](int64_t done, int64_t) {
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
  counts.not_utf8 = check.files();
  fsdp::files::write_durably(pending.path() / kTextFile, text_json(counts.not_utf8));
  write_file_list(pending.path());
  pending.commit();
  return counts;
}

}  // namespace data
