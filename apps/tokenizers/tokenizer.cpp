#include "tokenizers/tokenizer.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <utility>

#include "files/json.h"
#include "files/reading.h"
#include "tokenizers/bytes.h"
#include "tokenizers/hugging_face.h"
#include "tokenizers/sentencepiece.h"

namespace tokenizers {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFileNames[] = {"tokenizer.model", "tokenizer.json"};

constexpr const char *kVocabulary = "vocab.json", *kMerges = "merges.txt";  // together

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // that editors put before a JSON text

constexpr int64_t kMostBytes = int64_t{64} << 20;  // the largest files that are in use have half of it

std::string read(const fs::path& path) {
  return fsdp::files::read_whole(path, fmt::format("tokenizer '{}'", path.string()), kMostBytes);
}

bool has_file(const fs::path& folder, const char* name) {
  std::error_code ignored;
  return fs::is_regular_file(folder / name, ignored);
}

bool has_merges(const fs::path& folder) { return has_file(folder, kVocabulary) && has_file(folder, kMerges); }

fs::path file_in(const fs::path& folder) {
  for (const char* name : kFileNames) {
    if (has_file(folder, name)) return folder / name;
  }
  throw fsdp::Error(
      fmt::format("tokenizer folder '{}' holds neither tokenizer.model nor tokenizer.json, nor vocab.json with "
                  "merges.txt. Name a tokenizer's file, or bytes.",
                  folder.string()));
}

bool has_one_file(const fs::path& folder) {
  return std::any_of(std::begin(kFileNames), std::end(kFileNames),
                     [&](const char* name) { return has_file(folder, name); });
}

// Hugging Face's package would say it in words of its own, where there is one.
void check_hugging_face(const fsdp::files::Json& model, const fs::path& path) {
  if (model.is_object() && model.contains("vocab")) return;
  throw fsdp::Error(
      fmt::format("tokenizer '{}' is no tokenizer.json of Hugging Face, or is damaged: its 'model' has no 'vocab'.",
                  path.string()));
}

std::shared_ptr<const Tokenizer> from_json(const std::string& bytes, const fs::path& path) {
  const fsdp::files::Json json = fsdp::files::parse_json(bytes, fmt::format("tokenizer '{}'", path.string()));
  const bool is_exported = json == fsdp::files::parse_json(bytes_as_hugging_face(), "bytes");
  if (is_exported || json == fsdp::files::Json{{"tokenizer", "bytes"}}) return make_bytes();
  if (json.contains("model")) {
    check_hugging_face(json["model"], path);
    return make_hugging_face(bytes, path.string());
  }
  throw fsdp::Error(
      fmt::format("tokenizer '{}' is JSON, but neither a tokenizer.json of Hugging Face, which has a 'model', nor {}. "
                  "Name a tokenizer's file, or bytes.",
                  path.string(), make_bytes()->file().bytes.substr(0, make_bytes()->file().bytes.size() - 1)));
}

}  // namespace

std::shared_ptr<const Tokenizer> make_tokenizer(const std::string& name) {
  if (name == "bytes") return make_bytes();
  std::error_code ignored;
  if (!fs::exists(name, ignored)) {
    throw fsdp::Error(
        fmt::format("tokenizer '{}' does not exist. Name bytes, a sentencepiece model, a tokenizer.json of Hugging "
                    "Face (that of GPT-2: https://huggingface.co/gpt2/resolve/main/tokenizer.json), or a folder that "
                    "holds one of them.",
                    name));
  }
  if (!has_one_file(name) && has_merges(name)) {
    const fs::path file = fs::path(name) / kVocabulary;
    const std::string vocabulary = read(file);
    fsdp::files::parse_json(vocabulary, fmt::format("tokenizer '{}'", file.string()));  // says where it is damaged
    return make_hugging_face(vocabulary, read(fs::path(name) / kMerges), name);
  }
  const fs::path path = fs::is_directory(name, ignored) ? file_in(name) : fs::path(name);
  if (!fs::is_regular_file(path, ignored)) {
    throw fsdp::Error(fmt::format("tokenizer '{}' is neither a file nor a folder.", name));
  }
  std::string bytes = read(path);
  if (bytes.starts_with(kByteOrderMark)) bytes.erase(0, kByteOrderMark.size());
  if (bytes.empty()) throw fsdp::Error(fmt::format("tokenizer '{}' is empty.", path.string()));
  // No sentencepiece model begins so: its first byte is the tag of a field.
  if (bytes.front() == '{') return from_json(bytes, path);
  try {
    return make_sentencepiece(bytes, path.string());
  } catch (const fsdp::Error&) {
    if (path.extension() != ".json") throw;
  }
  return from_json(bytes, path);
}

bool has_tokenizer(const fs::path& folder) { return has_one_file(folder) || has_merges(folder); }

std::vector<std::vector<int32_t>> Tokenizer::encode_several(std::span<const std::string_view> texts,
                                                            int threads) const {
  std::vector<std::vector<int32_t>> tokens(texts.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < texts.size(); i = next++) tokens[i] = encode(texts[i]);
  };
  std::vector<std::future<void>> others;
  for (int thread = 1; thread < threads && static_cast<size_t>(thread) < texts.size(); ++thread) {
    others.push_back(std::async(std::launch::async, work));
  }
  work();
  for (std::future<void>& other : others) other.get();
  return tokens;
}

size_t Tokenizer::texts_at_once(int threads) const { return static_cast<size_t>(std::max(threads, 1)); }

}  // namespace tokenizers
