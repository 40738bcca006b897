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
  const size_t first_hash = first_hash_[static_cast<size_t>(&entry - file_.entries().data())];
  const int64_t end = begin + size;
  std::vector<char> unkept;
  for (int64_t block = begin / kHashBlockBytes; block * kHashBlockBytes < end; ++block) {
    const int64_t from = block * kHashBlockBytes, to = std::min(from + kHashBlockBytes, entry.bytes());
    files::ContentHash hash;
    for (int64_t at = from; at < to; at += kSliceBytes) {
      const int64_t slice_end = std::min(at + kSliceBytes, to);
      if (!is_hashed_ && (slice_end <= begin || at >= end)) continue;
      const bool is_whole = into != nullptr && at >= begin && slice_end <= end;
      if (!is_whole) unkept.resize(kSliceBytes);
      char* bytes = is_whole ? static_cast<char*>(into) + (at - begin) : unkept.data();
      file_.read_bytes(entry, at, slice_end - at, bytes);
      if (is_hashed_) hash.add(bytes, static_cast<size_t>(slice_end - at));
      const int64_t wanted = std::max(at, begin), wanted_end = std::min(slice_end, end);
      if (is_whole || into == nullptr || wanted >= wanted_end) continue;
      std::memcpy(static_cast<char*>(into) + (wanted - begin), bytes + (wanted - at),
                  static_cast<size_t>(wanted_end - wanted));
    }
    if (!is_hashed_) continue;
    const auto number = first_hash + static_cast<size_t>(block);
    const std::string_view saved = hashes_.substr(number * files::kHashDigits, files::kHashDigits);
    const std::string found = hash.hexadecimal();
    if (found == saved) continue;
    return fmt::format("{} is damaged: the hash of bytes {} to {} of tensor {} is {}, expected {}", name(), from, to,
                       files::printable(entry.name), found, files::printable(saved));
  }
  return "";
}

}  // namespace fsdp::checkpoint
