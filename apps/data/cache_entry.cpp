#include "data/cache_entry.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <string_view>

#include "data/file_list.h"

namespace data {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kTokens = "tokens-", kModel = "sentencepiece-", kModelEnd = ".model";
constexpr size_t kKeyDigits = 16;

std::string hexadecimal(const Fingerprint& key) { return fmt::format("{:016x}", key.value()); }

bool consists_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

bool is_key(std::string_view text) { return text.size() == kKeyDigits && consists_of(text, "0123456789abcdef"); }

bool is_model_name(std::string_view name) {
  if (!name.starts_with(kModel) || !name.ends_with(kModelEnd)) return false;
  const std::string_view middle = name.substr(kModel.size(), name.size() - kModel.size() - kModelEnd.size());
  const size_t dash = middle.find('-');
  return dash != std::string_view::npos && consists_of(middle.substr(0, dash), "0123456789") &&
         is_key(middle.substr(dash + 1));
}

[[noreturn]] void refuse(const fs::path& entry, const std::string& problem) {
  throw fsdp::Error(
      fmt::format("cache entry '{}' cannot be used: {} Remove it, and it is made anew.", entry.string(), problem));
}

void require(const fs::path& entry, fs::file_type expected, const char* is_no) {
  std::error_code ignored;
  if (fs::symlink_status(entry, ignored).type() != expected) refuse(entry, is_no);
}

}  // namespace

std::string token_entry(const Fingerprint& key) { return fmt::format("{}{}", kTokens, hexadecimal(key)); }

std::string model_entry(int64_t vocabulary, const Fingerprint& key) {
  return fmt::format("{}{}-{}{}", kModel, vocabulary, hexadecimal(key), kModelEnd);
}

EntryKind entry_kind(const std::string& name) {
  if (name.starts_with(kTokens) && is_key(std::string_view(name).substr(kTokens.size()))) return EntryKind::Tokens;
  return is_model_name(name) ? EntryKind::Model : EntryKind::None;
}

bool is_there(const fs::path& entry) {
  std::error_code error;
  const fs::file_status found = fs::symlink_status(entry, error);
  if (found.type() == fs::file_type::none) {
    throw fsdp::Error(fmt::format("cache entry '{}' cannot be read: {}.", entry.string(), error.message()));
  }
  return fs::exists(found);
}

void check_token_entry(const fs::path& folder) {
  require(folder, fs::file_type::directory, "it is no folder.");
  try {
    check_listed_files(folder, Links::Refused);
  } catch (const fsdp::Error& error) {
    refuse(folder, error.what());
  }
}

std::shared_ptr<const tokenizers::Tokenizer> read_model_entry(const fs::path& model, int64_t vocabulary) {
  require(model, fs::file_type::regular, "it is no regular file.");
  std::shared_ptr<const tokenizers::Tokenizer> tokenizer;
  try {
    tokenizer = tokenizers::make_tokenizer(model.string());
  } catch (const fsdp::Error& error) {
    refuse(model, error.what());
  }
  if (tokenizer->vocabulary() <= vocabulary) return tokenizer;
  refuse(model, fmt::format("it has {} tokens.", tokenizer->vocabulary()));
}

}  // namespace data
