#include "data/token_file.h"

#include <fmt/format.h>
#include <fsdp/error.h>
#include <glob.h>

#include <algorithm>
#include <cstring>

#include "tokenizers/tokenizer.h"

namespace data {

namespace fs = std::filesystem;

namespace {

// The number of tokens that a file of `kind` holds, by its size; what its header says must agree.
int64_t checked_size(const MappedFile& file, TokenKind kind) {
  const TokenFormat& format = format_of(kind);
  const auto bytes = static_cast<int64_t>(file.bytes().size());
  const int64_t token_bytes = bytes - format.header_bytes;
  auto check = [&](bool holds, const std::string& problem) {
    if (!holds)
      throw fsdp::Error(fmt::format("{} ({}) {}. Write or copy it again.", file.name(), format.name, problem));
  };
  check(token_bytes >= 0, fmt::format("has {} bytes, and its header alone has {}", bytes, format.header_bytes));
  if (format.header_bytes > 0) {
    int32_t header[3];
    std::memcpy(header, file.bytes().data(), sizeof header);
    check(header[1] == format.version, fmt::format("is of version {}; expected {}", header[1], format.version));
    const int64_t expected = format.header_bytes + int64_t{header[2]} * format.token_bytes;
    check(header[2] >= 0 && bytes == expected,
          fmt::format("has {} bytes, and its header tells of {} tokens, which would make {}", bytes, header[2],
                      expected));
  }
  check(token_bytes % format.token_bytes == 0,
        fmt::format("has {} bytes, which is no multiple of a token's {}", bytes, format.token_bytes));
  check(token_bytes > 0, "holds no tokens");
  return token_bytes / format.token_bytes;
}

template <typename Stored>
void widen(std::string_view bytes, const Reading& reading) {
  const auto* stored = reinterpret_cast<const Stored*>(bytes.data()) + reading.first;
  std::copy_n(stored, reading.tokens.size(), reading.tokens.data());
}

}  // namespace

TokenFile::TokenFile(const fs::path& path)
    : file_(path, "token file"), kind_(recognise(file_.bytes(), file_.name())), size_(checked_size(file_, kind_)) {
  file_.check();
}

void TokenFile::read(int64_t first, std::span<int64_t> tokens) const {
  const Reading reading{first, tokens};
  read_several({&reading, 1});
}

void TokenFile::read_several(std::span<const Reading> readings) const {
  const TokenFormat& format = format_of(kind_);
  const std::string_view bytes = file_.bytes().substr(static_cast<size_t>(format.header_bytes));
  for (const Reading& reading : readings) {
    format.token_bytes == 2 ? widen<uint16_t>(bytes, reading) : widen<uint32_t>(bytes, reading);
  }
  file_.check();
}

std::string TokenFile::where(int64_t position) const { return fmt::format("{}, token {}", file_.name(), position); }

namespace {

bool is_pattern(const std::string& data) {
  std::error_code ignored;
  return data.find_first_of("*?") != std::string::npos && !fs::exists(data, ignored);
}

// The files *.bin of the folder, or the pattern's files, sorted.
std::vector<fs::path> matches(const std::string& data) {
  std::error_code ignored;
  const bool folder = fs::is_directory(data, ignored);
  std::vector<fs::path> files;
  if (folder) {
    // A link that leads nowhere is one of them: what it stood for is missed when it is opened.
    for (const auto& entry : fs::directory_iterator(data)) {
      if (entry.path().extension() == ".bin" && !fs::is_directory(entry.path(), ignored)) files.push_back(entry.path());
    }
  } else if (is_pattern(data)) {
    glob_t found{};
    if (glob(data.c_str(), 0, nullptr, &found) == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
  } else {
    files.emplace_back(data);
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool has_in_name(const fs::path& file, const char* word) {
  return file.filename().string().find(word) != std::string::npos;
}

}  // namespace

bool names_token_files(const std::string& data) try {
  if (is_pattern(data)) return true;
  if (!fs::is_directory(data)) return fs::path(data).extension() == ".bin";
  const std::vector<fs::path> files = matches(data);
  if (!files.empty() && tokenizers::has_tokenizer(data)) return true;
  return std::any_of(files.begin(), files.end(),
                     [](const fs::path& file) { return has_in_name(file, "train") || has_in_name(file, "val"); });
} catch (const fs::filesystem_error&) {
  return false;  // opening it reports why
}

TokenFiles find_token_files(const std::string& data) try {
  TokenFiles files;
  const std::vector<fs::path> all = matches(data);
  for (const fs::path& file : all) (has_in_name(file, "val") ? files.validation : files.training).push_back(file);
  // A single file is what was asked for, whatever it is called.
  if (all.size() == 1) files = {.training = all, .validation = {}};
  if (!files.training.empty()) return files;
  throw fsdp::Error(
      fmt::format("data '{}' stands for no token file to train on ({} for validation). Name a file, a folder "
                  "with files *.bin, or a pattern such as fineweb_*.bin.",
                  data, files.validation.size()));
} catch (const fs::filesystem_error& error) {
  throw fsdp::Error(fmt::format("data '{}' cannot be read: {}.", data, error.code().message()));
}

Tokens open_token_files(const std::vector<fs::path>& files) {
  std::vector<Tokens> parts;
  for (const fs::path& file : files) parts.push_back(std::make_shared<TokenFile>(file));
  return joined(std::move(parts));
}

}  // namespace data
