#include "tokenizers/tokenizer.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <utility>

#include "files/json.h"
#include "files/reading.h"
#include "tokenizers/bytes.h"
#include "tokenizers/sentencepiece.h"

namespace tokenizers {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFileNames[] = {"tokenizer.model", "tokenizer.json"};

constexpr int64_t kMostBytes = int64_t{64} << 20;  // the largest models that are in use have five

fs::path file_in(const fs::path& folder) {
  for (const char* name : kFileNames) {
    std::error_code ignored;
    if (fs::is_regular_file(folder / name, ignored)) return folder / name;
  }
  throw fsdp::Error(
      fmt::format("tokenizer folder '{}' holds neither tokenizer.model nor tokenizer.json. Name a "
                  "sentencepiece model, or bytes.",
                  folder.string()));
}

std::shared_ptr<const Tokenizer> from_json(const std::string& bytes, const fs::path& path) {
  const auto json = fsdp::files::parse_json(bytes, fmt::format("tokenizer '{}'", path.string()));
  if (json == fsdp::files::Json{{"tokenizer", "bytes"}}) return make_bytes();
  throw fsdp::Error(
      fmt::format("tokenizer '{}' is JSON, but not {}, all that is read in this form. Name a sentencepiece model, or "
                  "bytes.",
                  path.string(), make_bytes()->file().bytes.substr(0, make_bytes()->file().bytes.size() - 1)));
}

}  // namespace

std::shared_ptr<const Tokenizer> make_tokenizer(const std::string& name) {
  if (name == "bytes") return make_bytes();
  std::error_code ignored;
  if (!fs::exists(name, ignored)) {
    throw fsdp::Error(
        fmt::format("tokenizer '{}' does not exist. Name bytes, a sentencepiece model, or a folder that holds one as "
                    "tokenizer.model.",
                    name));
  }
  const fs::path path = fs::is_directory(name, ignored) ? file_in(name) : fs::path(name);
  if (!fs::is_regular_file(path, ignored)) {
    throw fsdp::Error(fmt::format("tokenizer '{}' is neither a file nor a folder.", name));
  }
  std::string bytes = fsdp::files::read_whole(path, fmt::format("tokenizer '{}'", path.string()), kMostBytes);
  if (bytes.empty()) throw fsdp::Error(fmt::format("tokenizer '{}' is empty.", path.string()));
  // No sentencepiece model begins so: its first byte is the tag of a field.
  if (bytes.front() == '{') return from_json(bytes, path);
  return make_sentencepiece(std::move(bytes), path.string());
}

bool has_tokenizer(const fs::path& folder) {
  for (const char* name : kFileNames) {
    std::error_code ignored;
    if (fs::is_regular_file(folder / name, ignored)) return true;
  }
  return false;
}

}  // namespace tokenizers
