#include "data/text_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fsdp/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "data/fingerprint.h"

namespace data {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kMappedBytes = int64_t{1} << 20;  // files of that size and more are mapped
constexpr int64_t kLookedAt = 8192;

[[noreturn]] void fail(const fs::path& path, const char* reason) {
  throw fsdp::Error(fmt::format("text '{}' cannot be read: {}.", path.string(), reason));
}

// As many bytes as there are, up to bytes.size().
size_t read_some(const fs::path& path, int64_t first, std::span<char> bytes) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(path, std::strerror(errno));
  size_t done = 0;
  ssize_t count = 1;
  while (done < bytes.size() && count > 0) {
    count = pread(descriptor, bytes.data() + done, bytes.size() - done, first + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR)
      count = 1;
    else if (count > 0)
      done += static_cast<size_t>(count);
  }
  const int error = errno;
  close(descriptor);
  if (count < 0) fail(path, std::strerror(error));
  return done;
}

bool looks_like_text(const fs::path& path) {
  std::string beginning(kLookedAt, '\0');
  beginning.resize(read_some(path, 0, beginning));
  return !beginning.empty() && beginning.find('\0') == std::string::npos;
}

bool ends_with_newline(const fs::path& path, int64_t size) {
  char last = 0;
  read_some(path, size - 1, {&last, 1});
  return last == '\n';
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

}  // namespace

TextFiles::TextFiles(const fs::path& path) try {
  if (!fs::exists(path)) throw fsdp::Error(fmt::format("text '{}' does not exist.", path.string()));
  if (fs::is_regular_file(path)) {
    if (fs::file_size(path) == 0) throw fsdp::Error(fmt::format("text '{}' is empty.", path.string()));
    add(path, "", /*ended_by_newline=*/false);
    return;
  }
  if (!fs::is_directory(path)) {
    throw fsdp::Error(fmt::format("text '{}' is neither a file nor a folder.", path.string()));
  }
  for (const fs::path& file : files_under(path)) {
    if (looks_like_text(file)) add(file, file.lexically_relative(path).generic_string(), /*ended_by_newline=*/true);
  }
  if (files_.empty()) {
    throw fsdp::Error(
        fmt::format("text '{}' is a folder without a text file. Name one that holds text, or a file.", path.string()));
  }
} catch (const fs::filesystem_error& error) {
  fail(path, error.code().message().c_str());
}

void TextFiles::add(const fs::path& path, const std::string& name, bool ended_by_newline) {
  const auto bytes = static_cast<int64_t>(fs::file_size(path));
  const int64_t begin = files_.empty() ? 0 : files_.back().end;
  const int64_t end = begin + bytes + (ended_by_newline && !ends_with_newline(path, bytes) ? 1 : 0);
  if (bytes < kMappedBytes) {
    if (access(path.c_str(), R_OK) != 0) fail(path, std::strerror(errno));
    files_.push_back({path, name, begin, end, bytes, nullptr});
  } else {
    files_.push_back({path, name, begin, end, bytes, std::make_unique<MappedFile>(path, "text")});
  }
}

const TextFiles::File& TextFiles::file_at(int64_t position) const {
  return *std::upper_bound(files_.begin(), files_.end(), position,
                           [](int64_t wanted, const File& file) { return wanted < file.end; });
}

int64_t TextFiles::end_of_file(int64_t position) const { return file_at(position).end; }

std::string TextFiles::where(int64_t position) const {
  const File& file = file_at(position);
  return fmt::format("text '{}', byte {}", file.path.string(), position - file.begin);
}

void TextFiles::read_file(const File& file, int64_t first, std::span<char> bytes) {
  // The newline that the file lacks comes after its bytes.
  if (first + static_cast<int64_t>(bytes.size()) > file.bytes) {
    bytes.back() = '\n';
    bytes = bytes.first(bytes.size() - 1);
  }
  if (file.mapped) {
    file.mapped->check();
    std::memcpy(bytes.data(), file.mapped->bytes().data() + first, bytes.size());
  } else if (const size_t found = read_some(file.path, first, bytes); found < bytes.size()) {
    throw fsdp::Error(
        fmt::format("text '{}' has shrunk from {} to {} bytes since it was opened. Leave the data as it is "
                    "while it is read, and start again.",
                    file.path.string(), file.bytes, first + static_cast<int64_t>(found)));
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
    struct stat status {};
    if (stat(file.path.c_str(), &status) != 0) fail(file.path, std::strerror(errno));
    all.add(file.name);
    all.add(fmt::format("{} {}.{:09}", file.bytes, status.st_mtim.tv_sec, status.st_mtim.tv_nsec));
    std::string bytes(static_cast<size_t>(std::min(file.bytes, kLookedAt)), '\0');
    for (int64_t first : {int64_t{0}, file.bytes - static_cast<int64_t>(bytes.size())}) {
      read_file(file, first, bytes);
      all.add(bytes);
    }
  }
  return all.value();
}

TextPart all_of(const TextFiles& text) { return {.text = &text, .first = 0, .last = text.size()}; }

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
