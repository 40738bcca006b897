#include "data/text.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

namespace trainer {

namespace fs = std::filesystem;

namespace {

std::string read_file(const fs::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (file) bytes << file.rdbuf();
  // An empty file sets the failbit of `bytes`, and that is no error.
  if (!file || file.bad()) {
    throw fsdp::Error(fmt::format("text '{}' cannot be read: {}.", path.string(), std::strerror(errno)));
  }
  return std::move(bytes).str();
}

bool looks_like_text(std::string_view bytes) {
  constexpr size_t kLookedAt = 8192;
  return !bytes.empty() && bytes.substr(0, kLookedAt).find('\0') == std::string_view::npos;
}

std::vector<fs::path> files_under(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  // Directories list their entries in any order; the same data must follow from the same files.
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return a.generic_string() < b.generic_string(); });
  return files;
}

std::string read_folder(const fs::path& folder) {
  std::string text;
  for (const fs::path& file : files_under(folder)) {
    const std::string bytes = read_file(file);
    if (!looks_like_text(bytes)) continue;
    text += bytes;
    if (text.back() != '\n') text += '\n';
  }
  if (text.empty()) {
    throw fsdp::Error(fmt::format("text '{}' is a folder without a text file. Name one that holds text, or a file.",
                                  folder.string()));
  }
  return text;
}

}  // namespace

std::string read_text(const fs::path& path) try {
  if (!fs::exists(path)) throw fsdp::Error(fmt::format("text '{}' does not exist.", path.string()));
  if (fs::is_directory(path)) return read_folder(path);
  if (!fs::is_regular_file(path)) {
    throw fsdp::Error(fmt::format("text '{}' is neither a file nor a folder.", path.string()));
  }
  std::string text = read_file(path);
  if (text.empty()) throw fsdp::Error(fmt::format("text '{}' is empty.", path.string()));
  return text;
} catch (const fs::filesystem_error& error) {
  throw fsdp::Error(fmt::format("text '{}' cannot be read: {}.", path.string(), error.code().message()));
}

TextSplit split_text(std::string_view text, int64_t context) {
  const auto window = static_cast<size_t>(context) + 1;
  if (text.size() < window) {
    throw fsdp::Error(
        fmt::format("the text has {} bytes, and one window of --context {} needs {}. Use a longer text or "
                    "a smaller --context.",
                    text.size(), context, window));
  }
  const size_t held_back = text.size() / 20;
  if (held_back < window || text.size() - held_back < window) return {.training = text, .validation = {}};
  return {.training = text.substr(0, text.size() - held_back), .validation = text.substr(text.size() - held_back)};
}

}  // namespace trainer
