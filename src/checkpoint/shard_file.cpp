#include "checkpoint/shard_file.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "files/content_hash.h"
#include "files/printable.h"

namespace fsdp::checkpoint {

namespace {

// A slice is hashed while it is in the core's own cache.
constexpr int64_t kSliceBytes = 256 << 10;

}  // namespace

ShardFile::ShardFile(const std::filesystem::path& path, const WrittenFile& saved)
    : file_(path, &saved), is_hashed_(!saved.hash.empty()) {
  const auto& entries = file_.entries();
  size_t hashes = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    numbers_.emplace(entries[i].name, i);
    first_hash_.push_back(hashes);
    hashes += static_cast<size_t>((entries[i].bytes() + kHashBlockBytes - 1) / kHashBlockBytes);
  }
  if (!is_hashed_) return;
  const auto found = file_.metadata().find(kHashesName);
  hashes_ = found == file_.metadata().end() ? std::string_view() : std::string_view(found->second);
  FSDP_CHECK(hashes_.size() == hashes * files::kHashDigits, "{} is damaged: it has {} digits of hashes, expected {}",
             name(), hashes_.size(), hashes * files::kHashDigits);
}

const ShardFile::Entry& ShardFile::entry(const std::string& tensor, const std::string& dtype,
                                         const std::vector<int64_t>& shape) const {
  const auto found = numbers_.find(tensor);
  FSDP_CHECK(found != numbers_.end(), "{} is damaged: it has no {}, and its manifest says so", name(),
             files::printable(tensor));
  const Entry& entry = file_.entries()[found->second];
  FSDP_CHECK(dtype_name(entry.type) == dtype && entry.shape == shape,
             "{} is damaged: {} has shape {} of {}, and its manifest says {} of {}", name(), files::printable(tensor),
             entry.shape, dtype_name(entry.type), shape, files::printable(dtype));
  return entry;
}

std::string ShardFile::read(const Entry& entry, int64_t begin, int64_t size, void* into) const {
  const Wanted wanted{begin, begin + size, static_cast<char*>(into)};
  std::vector<char> unkept;
  for (int64_t block = begin / kHashBlockBytes; block * kHashBlockBytes < wanted.end; ++block) {
    const std::string found = read_block(entry, block, wanted, unkept);
    if (!is_hashed_) continue;
    const std::string_view saved = saved_hash(entry, block);
    if (found == saved) continue;
    return fmt::format("{} is damaged: the hash of bytes {} to {} of tensor {} is {}, expected {}", name(),
                       block * kHashBlockBytes, end_of(entry, block), files::printable(entry.name), found,
                       files::printable(saved));
  }
  return "";
}

std::string ShardFile::read_block(const Entry& entry, int64_t block, const Wanted& wanted,
                                  std::vector<char>& unkept) const {
  files::ContentHash hash;
  const int64_t end = end_of(entry, block);
  for (int64_t at = block * kHashBlockBytes; at < end; at += kSliceBytes) {
    const int64_t slice_end = std::min(at + kSliceBytes, end);
    if (!is_hashed_ && (slice_end <= wanted.begin || at >= wanted.end)) continue;
    const bool is_in_place = wanted.into != nullptr && at >= wanted.begin && slice_end <= wanted.end;
    if (!is_in_place) unkept.resize(kSliceBytes);
    char* bytes = is_in_place ? wanted.into + (at - wanted.begin) : unkept.data();
    file_.read_bytes(entry, at, slice_end - at, bytes);
    if (is_hashed_) hash.add(bytes, static_cast<size_t>(slice_end - at));
    if (!is_in_place) wanted.copy(bytes, at, slice_end);
  }
  return hash.hexadecimal();
}

void ShardFile::Wanted::copy(const char* bytes, int64_t from, int64_t to) const {
  const int64_t first = std::max(from, begin), last = std::min(to, end);
  if (into == nullptr || first >= last) return;
  std::memcpy(into + (first - begin), bytes + (first - from), static_cast<size_t>(last - first));
}

int64_t ShardFile::end_of(const Entry& entry, int64_t block) {
  return std::min((block + 1) * kHashBlockBytes, entry.bytes());
}

std::string_view ShardFile::saved_hash(const Entry& entry, int64_t block) const {
  const size_t first = first_hash_[static_cast<size_t>(&entry - file_.entries().data())];
  return hashes_.substr((first + static_cast<size_t>(block)) * files::kHashDigits, files::kHashDigits);
}

}  // namespace fsdp::checkpoint
