#include "data/text_files.h"

#include <fmt/format.h>
#include <fsdp/error.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "data/content.h"
#include "data/fingerprint.h"
#include "data/text_kind.h"
#include "files/printable.h"
#include "files/reading.h"

namespace data {

namespace fs = std::filesystem;
namespace files = fsdp::files;

namespace {

constexpr int64_t kMappedBytes = int64_t{1} << 20;  // files of that size and more are mapped
constexpr int64_t kLookedAt = 8192;

std::string name_of(const fs::path& path) { return fmt::format("text '{}'", files::printable(path.string())); }

// As many bytes as there are, up to bytes.size().
size_t read_some(const fs::path& path, int64_t first, std::span<char> bytes) {
  const std::string name = name_of(path);
  const files::OpenFile file = files::open_regular(path, name);
  const auto there = static_cast<size_t>(std::max<int64_t>(file.bytes - first, 0));
  const size_t count = std::min(bytes.size(), there);
  files::read_exactly(file, first, bytes.data(), count, name);
  return count;
}

std::string beginning_of(const fs::path& path) {
  std::string beginning(kLookedAt, '\0');
  beginning.resize(read_some(path, 0, beginning));
  return beginning;
}

timespec time_of(const fs::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) return status.st_mtim;
  throw fsdp::Error(fmt::format("{} cannot be read: {}.", name_of(path), std::strerror(errno)));
}

bool ends_lines_with_crlf(const std::string& beginning) {
  const size_t newline = beginning.find('\n');
  return newline != std::string::npos && newline > 0 && beginning[newline - 1] == '\r';
}

bool is_binary(const std::string& beginning) { return beginning.find('\0') != std::string::npos; }

void check_form(const fs::path& path, const std::string& beginning) {
  const std::optional<OtherForm> form = other_form(beginning);
  if (!form && is_binary(beginning)) {
    throw fsdp::Error(
        fmt::format("{} is no text: byte {} is NUL. Name a file in UTF-8. Files of tokens are named with "
                    "--data.",
                    name_of(path), beginning.find('\0')));
  }
  if (!form) return;
  const std::string shown = files::printable(path.string());
  throw fsdp::Error(fmt::format("{} is {}, and texts are read as UTF-8. Convert it: {} '{}' > '{}.utf8.txt'",
                                name_of(path), form->name, form->command, shown, shown));
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

bool ends_with_newline(const fs::path& path, int64_t size) {
  char last = 0;
  read_some(path, size - 1, {&last, 1});
  return last == '\n';
}

struct Found {
  std::vector<fs::path> entries;  // neither folders nor links to one
  std::vector<std::string> passed_over;
  std::vector<std::string> hidden;  // below the root
};

// Lists one folder after the other: a tree may be deeper than a stack.
Found entries_under(const fs::path& root) {
  Found found;
  std::vector<fs::path> folders = {root};
  while (!folders.empty()) {
    const fs::path folder = std::move(folders.back());
    folders.pop_back();
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      std::error_code unknown;
      const fs::path& path = entry->path();
      if (is_hidden(path)) {
        found.hidden.push_back(path.lexically_relative(root).generic_string());
      } else if (entry->symlink_status(unknown).type() == fs::file_type::directory) {
        folders.push_back(path);
      } else if (fs::is_directory(path, unknown)) {
        found.passed_over.push_back(fmt::format("{} is a link to a folder; name that one instead.", name_of(path)));
      } else {
        found.entries.push_back(path);
      }
    }
    if (error) found.passed_over.push_back(fmt::format("{} cannot be read: {}.", name_of(folder), error.message()));
    if (error && folder == root) throw fsdp::Error(found.passed_over.back());
  }
  // Directories list their entries in any order; the same data must follow from the same files.
  std::sort(found.entries.begin(), found.entries.end(),
            [](const fs::path& a, const fs::path& b) { return a.generic_string() < b.generic_string(); });
  std::sort(found.hidden.begin(), found.hidden.end());
  return found;
}

}  // namespace

TextFiles::TextFiles(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::not_found) throw fsdp::Error(fmt::format("{} does not exist.", name_of(path)));
  if (type == fs::file_type::none) {
    throw fsdp::Error(fmt::format("{} cannot be read: {}.", name_of(path), error.message()));
  }
  if (type != fs::file_type::regular && type != fs::file_type::directory) {
    throw fsdp::Error(fmt::format("{} is neither a file nor a folder.", name_of(path)));
  }
  if (type == fs::file_type::directory) {
    add_folder(path);
  } else {
    add(path, "", /*ended_by_newline=*/false);
    if (size() == 0) throw fsdp::Error(fmt::format("{} is empty.", name_of(path)));
    const std::string beginning = beginning_of(path);
    check_form(path, beginning);
    if (ends_lines_with_crlf(beginning)) facts_.crlf.add(files::printable(path.filename().string()));
  }
}

void TextFiles::add_folder(const fs::path& folder) {
  Found found = entries_under(folder);
  passed_over_ = std::move(found.passed_over);
  for (const std::string& name : found.hidden) facts_.hidden.add(files::printable(name));
  for (const fs::path& path : found.entries) add_if_text(path, path.lexically_relative(folder).generic_string());
  std::sort(passed_over_.begin(), passed_over_.end());
  if (!files_.empty()) return;
  std::string others;
  for (const std::string& line : skipped_lines(facts_)) others += fmt::format(" It {}.", line);
  if (!passed_over_.empty()) others += " Passed over: " + passed_over_.front();
  throw fsdp::Error(fmt::format("{} is a folder without a text file. Name one that holds text, or a file.{}",
                                name_of(folder), others));
}

void TextFiles::add_if_text(const fs::path& path, const std::string& name) try {
  const std::string beginning = beginning_of(path);
  if (beginning.empty()) return facts_.empty.add(files::printable(name));
  const bool is_text = !is_binary(beginning) && !other_form(beginning);
  if (!is_text) return facts_.binary.add(files::printable(name));
  add(path, name, /*ended_by_newline=*/true);
  if (ends_lines_with_crlf(beginning)) facts_.crlf.add(files::printable(name));
} catch (const fsdp::Error& error) {
  passed_over_.emplace_back(error.what());
}

void TextFiles::add(const fs::path& path, const std::string& name, bool ended_by_newline) {
  const int64_t bytes = files::open_regular(path, name_of(path)).bytes;
  const int64_t begin = files_.empty() ? 0 : files_.back().end;
  const int64_t end = begin + bytes + (ended_by_newline && !ends_with_newline(path, bytes) ? 1 : 0);
  auto mapped = bytes < kMappedBytes ? nullptr : std::make_unique<MappedFile>(path, "text");
  files_.push_back({path, name, begin, end, bytes, std::move(mapped)});
}

const TextFiles::File& TextFiles::file_at(int64_t position) const {
  return *std::upper_bound(files_.begin(), files_.end(), position,
                           [](int64_t wanted, const File& file) { return wanted < file.end; });
}

int64_t TextFiles::end_of_file(int64_t position) const { return file_at(position).end; }

std::string TextFiles::where(int64_t position) const {
  const File& file = file_at(position);
  return fmt::format("{}, byte {}", name_of(file.path), position - file.begin);
}

std::string TextFiles::place(int64_t position) const {
  const File& file = file_at(position);
  const std::string name = file.name.empty() ? file.path.filename().string() : file.name;
  return fmt::format("{}, byte {}", files::printable(name), position - file.begin);
}

void TextFiles::read_file(const File& file, int64_t first, std::span<char> bytes) {
  // The newline that the file lacks comes after its bytes.
  if (first + static_cast<int64_t>(bytes.size()) > file.bytes) {
    bytes.back() = '\n';
    bytes = bytes.first(bytes.size() - 1);
  }
  if (file.mapped) {
    std::memcpy(bytes.data(), file.mapped->bytes().data() + first, bytes.size());
    file.mapped->check();
  } else if (const size_t found = read_some(file.path, first, bytes); found < bytes.size()) {
    throw fsdp::Error(
        fmt::format("{} has shrunk from {} to {} bytes since it was opened. Leave the data as it is while it is read, "
                    "and start again.",
                    name_of(file.path), file.bytes, first + static_cast<int64_t>(found)));
  }
}

void TextFiles::read(int64_t first, std::span<char> bytes) const {
  if (bytes.empty()) return;
  for (const File* file = &file_at(first); !bytes.empty(); ++file) {
    const auto count = std::min(bytes.size(), static_cast<size_t>(file->end - first));
    read_file(*file, first - file->begin, bytes.first(count));
    bytes = bytes.subspan(count);
    first += static_cast<int64_t>(count);
  }
}

uint64_t TextFiles::fingerprint() const {
  Fingerprint all;
  for (const File& file : files_) {
    const timespec time = time_of(file.path);
    all.add(file.name);
    all.add(fmt::format("{} {}.{:09}", file.bytes, time.tv_sec, time.tv_nsec));
    std::string bytes(static_cast<size_t>(std::min(file.bytes, kLookedAt)), '\0');
    for (int64_t first : {int64_t{0}, file.bytes - static_cast<int64_t>(bytes.size())}) {
      read_file(file, first, bytes);
      all.add(bytes);
    }
  }
  std::string bytes(static_cast<size_t>(kHashedTogether), '\0');
  all.add(content_hash(size(), [&](int64_t first, int64_t count, files::ContentHash& hash) {
    const std::span<char> piece = std::span(bytes).first(static_cast<size_t>(count));
    read(first, piece);
    hash.add(piece.data(), piece.size());
  }));
  release();
  return all.value();
}

int64_t TextFiles::written() const {
  int64_t newest = 0;
  for (const File& file : files_) newest = std::max<int64_t>(newest, time_of(file.path).tv_sec);
  return newest;
}

void TextFiles::release() const {
  for (const File& file : files_) {
    if (file.mapped) file.mapped->release();
  }
}

TextPart all_of(const TextFiles& text) { return {.text = &text, .first = 0, .last = text.size()}; }

std::string passed_over_text(const std::vector<std::string>& passed_over) {
  constexpr size_t kMostLines = 10;
  if (passed_over.empty()) return "";
  std::string text = fmt::format("passed over {}:\n", passed_over.size());
  for (size_t i = 0; i < std::min(passed_over.size(), kMostLines); ++i) text += fmt::format("  {}\n", passed_over[i]);
  if (passed_over.size() > kMostLines) text += fmt::format("  and {} more\n", passed_over.size() - kMostLines);
  return text;
}

TextSplit split_text(const TextFiles& text, double fraction) {
  const int64_t size = text.size();
  int64_t at = size - static_cast<int64_t>(static_cast<double>(size) * fraction);
  // A line is cut nowhere: with the byte before the place, one that begins there is seen to do so.
  for (std::string piece(kLookedAt, '\0'); at > 0 && at < size;) {
    piece.resize(static_cast<size_t>(std::min(kLookedAt, size - at + 1)));
    text.read(at - 1, piece);
    const size_t newline = piece.find('\n');
    if (newline != std::string::npos) {
      at += static_cast<int64_t>(newline);
      break;
    }
    at += static_cast<int64_t>(piece.size());
  }
  at = std::min(at, size);
  return {.training = {&text, 0, at}, .validation = {&text, at, size}};
}

}  // namespace data
