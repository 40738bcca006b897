// The file begins with its own hash, of all of its bytes with zeros in the hash's place:
//   {
//     "hash": "<32 hexadecimal digits>",
//     "format": "fsdp-checkpoint", ...
#include "checkpoint/manifest.h"

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "checkpoint/manifest_json.h"
#include "files/content_hash.h"
#include "files/durable_file.h"
#include "files/printable.h"
#include "files/reading.h"

namespace fsdp::checkpoint {

namespace {

constexpr std::string_view kBeginning = "{\n  \"hash\": \"";
constexpr int64_t kMostBytes = int64_t{1} << 30;

std::string with_hash(std::string text, std::string_view hash) {
  return text.replace(kBeginning.size(), files::kHashDigits, hash);
}

std::string own_hash(const std::string& text) {
  const std::string zeros = with_hash(text, std::string(files::kHashDigits, '0'));
  return files::hash_of(zeros.data(), zeros.size());
}

void check_own_hash(const std::string& text, const std::string& file) {
  FSDP_CHECK(text.starts_with(kBeginning) && text.size() > kBeginning.size() + files::kHashDigits,
             "{} is damaged: it does not begin with its hash. Use an older checkpoint.", file);
  const std::string found = text.substr(kBeginning.size(), files::kHashDigits), expected = own_hash(text);
  FSDP_CHECK(found == expected,
             "{} is damaged: its hash is {}, expected {}. It changed after it was saved; use an older checkpoint.",
             file, expected, files::printable(found));
}

}  // namespace

bool is_scalar_of(const std::string& kind, double number) {
  if (!kind.ends_with(".step")) return true;
  return number >= 0 && number <= static_cast<double>(kHighestStep) && number == std::floor(number);
}

std::optional<int64_t> numel_of(const std::vector<int64_t>& shape) {
  int64_t numel = 1;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(numel, size, &numel)) return std::nullopt;
  }
  return numel;
}

std::string shard_file_name(int rank, int shards) {
  return fmt::format("shard-{:05}-of-{:05}.safetensors", rank + 1, shards);
}

std::optional<int> rank_of_file(const std::string& name, int shards) {
  constexpr std::string_view kShard = "shard-";
  int shard = 0;
  if (!name.starts_with(kShard)) return std::nullopt;
  std::from_chars(name.data() + kShard.size(), name.data() + name.size(), shard);
  const bool is_there = shard >= 1 && shard <= shards && name == shard_file_name(shard - 1, shards);
  return is_there ? std::optional(shard - 1) : std::nullopt;
}

std::string file_name(const Manifest& manifest, int file) {
  const int rank = manifest.writers.empty() ? file : manifest.writers[static_cast<size_t>(file)];
  return shard_file_name(rank, manifest.shards);
}

bool is_file_of_checkpoint(const std::string& name) {
  if (name == kManifestName) return true;
  constexpr std::string_view kOf = "-of-";
  const size_t of = name.find(kOf);
  int shards = 0;
  if (of == std::string::npos) return false;
  std::from_chars(name.data() + of + kOf.size(), name.data() + name.size(), shards);
  return rank_of_file(name, shards).has_value();
}

bool has_manifest(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / kManifestName;
  std::error_code ignored;
  if (std::filesystem::symlink_status(file, ignored).type() == std::filesystem::file_type::not_found) return false;
  const std::string text = files::read_whole(file, message_prefix() + file.string(), kMostBytes);
  return text.find(fmt::format("\"{}\"", kManifestFormat)) != std::string::npos;
}

bool is_checkpoint(const std::filesystem::path& directory) {
  try {
    return has_manifest(directory);
  } catch (const Error&) {
    return false;
  }
}

void write_manifest(const std::filesystem::path& directory, const Manifest& manifest) {
  std::string text;
  try {
    text = json_of(manifest).dump(2) + "\n";
  } catch (const nlohmann::json::exception& error) {
    throw_error(message_prefix() +
                fmt::format("{}: notes and names have to be UTF-8: {}", directory.string(), error.what()));
  }
  files::DurableFile file(directory / kManifestName);
  file.append(with_hash(text, own_hash(text)));
  file.close();
}

Manifest read_manifest(const std::filesystem::path& directory) {
  const std::string file = (directory / kManifestName).string();
  std::error_code ignored;
  FSDP_CHECK(std::filesystem::exists(file, ignored), "{} is not there: {} is not a checkpoint", file,
             directory.string());
  const std::string text = files::read_whole(file, file, kMostBytes);
  const bool has_hash = text.starts_with(kBeginning);
  if (has_hash) check_own_hash(text, file);
  const files::Json json = files::parse_json(text, file);
  check_format(json, file);
  if (!has_hash) check_own_hash(text, file);  // says that there is none
  return manifest_in(json, file);
}

}  // namespace fsdp::checkpoint
