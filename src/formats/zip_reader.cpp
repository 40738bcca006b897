#include "formats/zip_reader.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "files/printable.h"
#include "formats/crc32.h"
#include "formats/zip_format.h"

namespace fsdp::formats {

namespace {

using namespace zip;

constexpr int64_t kMostDirectoryBytes = int64_t{1} << 28;
constexpr int64_t kLongestComment = 0xFFFF;

struct DirectoryEntry {
  std::string_view name = {}, extra = {};
  uint32_t compressed = 0, bytes = 0, header = 0, crc = 0;
  uint16_t flags = 0, method = 0;
  int64_t length = 0;  // of all of it
};

// The entry at the beginning of the directory's remaining bytes.
DirectoryEntry directory_entry(std::string_view left, const std::string& name) {
  FSDP_CHECK(left.size() >= kDirectoryEntryBytes && number_at<uint32_t>(left, 0) == kDirectoryEntry,
             "{} is damaged: its directory of entries ends too early", name);
  DirectoryEntry entry{.flags = number_at<uint16_t>(left, 8), .method = number_at<uint16_t>(left, 10)};
  entry.crc = number_at<uint32_t>(left, 16);
  entry.compressed = number_at<uint32_t>(left, 20);
  entry.bytes = number_at<uint32_t>(left, 24);
  entry.header = number_at<uint32_t>(left, 42);
  const size_t name_bytes = number_at<uint16_t>(left, 28), extra_bytes = number_at<uint16_t>(left, 30);
  const size_t comment_bytes = number_at<uint16_t>(left, 32);
  const size_t length = kDirectoryEntryBytes + name_bytes + extra_bytes + comment_bytes;
  FSDP_CHECK(length <= left.size(), "{} is damaged: its directory of entries ends too early", name);
  entry.name = left.substr(kDirectoryEntryBytes, name_bytes);
  entry.extra = left.substr(kDirectoryEntryBytes + name_bytes, extra_bytes);
  entry.length = static_cast<int64_t>(length);
  return entry;
}

// The 64-bit numbers in the entry's extra field, in their order; they replace numbers that are kIn64.
class Wide {
 public:
  Wide(std::string_view extra, const std::string& name) : name_(name) {
    while (extra.size() >= 4) {
      const size_t bytes = number_at<uint16_t>(extra, 2);
      if (bytes > extra.size() - 4) return;
      if (number_at<uint16_t>(extra, 0) == kZip64Extra) left_ = extra.substr(4, bytes);
      extra.remove_prefix(4 + bytes);
    }
  }

  int64_t number(uint32_t narrow) {
    if (narrow != kIn64) return narrow;
    FSDP_CHECK(left_.size() >= sizeof(uint64_t), "{} is damaged: a number of 64 bits is missing", name_);
    const auto wide = number_at<uint64_t>(left_, 0);
    left_.remove_prefix(sizeof wide);
    FSDP_CHECK(wide <= uint64_t{1} << 62, "{} is damaged: it has a number of {}", name_, wide);
    return static_cast<int64_t>(wide);
  }

 private:
  const std::string& name_;
  std::string_view left_;
};

}  // namespace

ZipReader::ZipReader(const files::OpenFile& file, int64_t begin, int64_t bytes, std::string name)
    : file_(file), begin_(begin), bytes_(bytes), name_(std::move(name)) {
  FSDP_CHECK(begin >= 0 && bytes >= 0 && begin <= file.bytes && bytes <= file.bytes - begin,
             "{} is damaged: it would lie from byte {} on, {} of them, of a file of {}", name_, begin, bytes,
             file.bytes);
  read_entries(find_directory());
}

std::string ZipReader::bytes_at(int64_t offset, int64_t size) const {
  FSDP_CHECK(offset >= 0 && size >= 0 && offset <= bytes_ && size <= bytes_ - offset,
             "{} is damaged: something in it would lie from byte {} on, {} of them, of {}", name_, offset, size,
             bytes_);
  std::string bytes(static_cast<size_t>(size), '\0');
  files::read_exactly(file_, begin_ + offset, bytes.data(), bytes.size(), name_);
  return bytes;
}

// The record at the end says where the directory is. A comment may follow it, up to the last byte.
ZipReader::Directory ZipReader::find_directory() const {
  const int64_t searched = std::min(bytes_, kEndBytes + kLongestComment);
  const std::string tail = bytes_at(bytes_ - searched, searched);
  for (int64_t at = searched - kEndBytes; at >= 0; --at) {
    const std::string_view record = std::string_view(tail).substr(static_cast<size_t>(at));
    if (number_at<uint32_t>(record, 0) != kEnd) continue;
    if (number_at<uint16_t>(record, 20) != searched - kEndBytes - at) continue;
    FSDP_CHECK(number_at<uint16_t>(record, 4) == 0 && number_at<uint16_t>(record, 6) == 0,
               "{} is a part of a zip file in several parts, expected a whole one", name_);
    const Directory narrow{number_at<uint32_t>(record, 16), number_at<uint32_t>(record, 12),
                           number_at<uint16_t>(record, 10)};
    const bool is_wide = narrow.begin == kIn64 || narrow.bytes == kIn64 || narrow.entries == 0xFFFF;
    return is_wide ? zip64_directory(bytes_ - searched + at) : narrow;
  }
  FSDP_CHECK(false, "{} is not a zip file, or is cut off: found no directory of entries in its {} bytes", name_,
             bytes_);
  return {};
}

ZipReader::Directory ZipReader::zip64_directory(int64_t end_record) const {
  const std::string locator = bytes_at(end_record - kEnd64LocatorBytes, kEnd64LocatorBytes);
  FSDP_CHECK(number_at<uint32_t>(locator, 0) == kEnd64Locator, "{} is damaged: its zip64 locator is missing", name_);
  const auto at = number_at<uint64_t>(locator, 8);
  FSDP_CHECK(at <= static_cast<uint64_t>(bytes_), "{} is damaged: its zip64 record would lie at byte {} of {}", name_,
             at, bytes_);
  const std::string record = bytes_at(static_cast<int64_t>(at), kEnd64Bytes);
  FSDP_CHECK(number_at<uint32_t>(record, 0) == kEnd64, "{} is damaged: its zip64 record is missing", name_);
  const auto entries = number_at<uint64_t>(record, 32), bytes = number_at<uint64_t>(record, 40),
             begin = number_at<uint64_t>(record, 48);
  const auto most = static_cast<uint64_t>(bytes_);
  FSDP_CHECK(entries <= most && bytes <= most && begin <= most,
             "{} is damaged: its directory has {} entries in {} bytes from byte {} on, of {}", name_, entries, bytes,
             begin, bytes_);
  return {static_cast<int64_t>(begin), static_cast<int64_t>(bytes), static_cast<int64_t>(entries)};
}

void ZipReader::read_entries(const Directory& directory) {
  FSDP_CHECK(directory.bytes <= kMostDirectoryBytes, "{}: its directory of entries has {} bytes, expected at most {}",
             name_, directory.bytes, kMostDirectoryBytes);
  const std::string bytes = bytes_at(directory.begin, directory.bytes);
  data_end_ = directory.begin;
  std::string_view left = bytes;
  int64_t stored = 0;
  for (int64_t i = 0; i < directory.entries; ++i) {
    const DirectoryEntry found = directory_entry(left, name_);
    left.remove_prefix(static_cast<size_t>(found.length));
    const std::string shown = files::printable(found.name);
    FSDP_CHECK((found.flags & kEncryptedFlag) == 0, "{}: {} is encrypted", name_, shown);
    Wide wide(found.extra, name_);
    const int64_t unpacked = wide.number(found.bytes);
    Entry entry{.bytes = wide.number(found.compressed), .crc = found.crc, .is_stored = found.method == kStored};
    entry.header = wide.number(found.header);
    FSDP_CHECK((unpacked == entry.bytes || !entry.is_stored) && entry.header <= data_end_ &&
                   entry.bytes <= data_end_ - entry.header,
               "{} is damaged: {} would have {} bytes from byte {} on, of {}", name_, shown, entry.bytes, entry.header,
               data_end_);
    FSDP_CHECK(entry.bytes <= data_end_ - stored, "{} is damaged: its entries overlap", name_);
    stored += entry.bytes;
    FSDP_CHECK(entries_.emplace(found.name, entry).second, "{} is damaged: it has two entries called {}", name_, shown);
  }
  FSDP_CHECK(left.empty(), "{} is damaged: its directory has more than its {} entries", name_, directory.entries);
}

int64_t ZipReader::data_of(const std::string& name) const {
  const auto found = entries_.find(name);
  const std::string shown = files::printable(name);
  FSDP_CHECK(found != entries_.end(), "{} is damaged: it has no entry {}", name_, shown);
  const Entry& entry = found->second;
  FSDP_CHECK(entry.is_stored,
             "{}: {} is compressed, and torch.save never does so. Unpack the file, and save it again with torch.save.",
             name_, shown);
  const std::string header = bytes_at(entry.header, kLocalHeaderBytes);
  const int64_t name_bytes = number_at<uint16_t>(header, 26), extra_bytes = number_at<uint16_t>(header, 28);
  FSDP_CHECK(
      number_at<uint32_t>(header, 0) == kLocalHeader && bytes_at(entry.header + kLocalHeaderBytes, name_bytes) == name,
      "{} is damaged: where {} should begin is something else", name_, shown);
  const int64_t data = entry.header + kLocalHeaderBytes + name_bytes + extra_bytes;
  FSDP_CHECK(data <= data_end_ && entry.bytes <= data_end_ - data, "{} is damaged: {} would lie outside of it", name_,
             shown);
  return begin_ + data;
}

std::string ZipReader::read(const std::string& name, int64_t most) const {
  const int64_t data = data_of(name);
  const Entry& entry = entries_.at(name);
  FSDP_CHECK(entry.bytes <= most, "{}: {} has {} bytes, expected at most {}", name_, files::printable(name),
             entry.bytes, most);
  std::string bytes = bytes_at(data - begin_, entry.bytes);
  FSDP_CHECK(crc32(0, bytes.data(), bytes.size()) == entry.crc, "{} is damaged: the checksum of {} is wrong", name_,
             files::printable(name));
  return bytes;
}

}  // namespace fsdp::formats
