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
  if (size == 0) return "";
  const Wanted wanted{.begin = begin, .bytes = size, .into = static_cast<char*>(into)};
  const Wanted* const all[] = {&wanted};
  for (int64_t block = begin / kHashBlockBytes; block * kHashBlockBytes < wanted.end(); ++block) {
    std::string damage = read_block(entry, block, all);
    if (!damage.empty()) return damage;
  }
  return "";
}

std::string ShardFile::read_block(const Entry& entry, int64_t block, std::span<const Wanted* const> wanted) const {
  std::vector<char> unkept;
  const std::string found = hash_of_block(entry, block, wanted, unkept);
  if (!is_hashed_) return "";
  const std::string_view saved = saved_hash(entry, block);
  if (found == saved) return "";
  return fmt::format("{} is damaged: the hash of bytes {} to {} of tensor {} is {}, expected {}", name(),
                     block * kHashBlockBytes, end_of(entry, block), files::printable(entry.name), found,
                     files::printable(saved));
}

std::string ShardFile::hash_of_block(const Entry& entry, int64_t block, std::span<const Wanted* const> wanted,
                                     std::vector<char>& unkept) const {
  files::ContentHash hash;
  const int64_t end = end_of(entry, block);
  for (int64_t at = block * kHashBlockBytes; at < end; at += kSliceBytes) {
    const int64_t slice_end = std::min(at + kSliceBytes, end);
    const auto is_wanted = [&](const Wanted* one) { return one->next(at) < std::min(slice_end, one->end()); };
    if (!is_hashed_ && std::ranges::none_of(wanted, is_wanted)) continue;
    char* bytes = wanted.size() == 1 ? wanted[0]->place_of(at, slice_end) : nullptr;
    const bool is_in_place = bytes != nullptr;
    if (!is_in_place) unkept.resize(kSliceBytes), bytes = unkept.data();
    file_.read_bytes(entry, at, slice_end - at, bytes);
    if (is_hashed_) hash.add(bytes, static_cast<size_t>(slice_end - at));
    for (const Wanted* one : wanted) {
      if (!is_in_place) one->copy(bytes, at, slice_end);
    }
  }
  return hash.hexadecimal();
}

int64_t ShardFile::Wanted::next(int64_t from) const {
  if (from <= begin) return begin;
  if (from >= end()) return end();
  const int64_t run = step == 0 ? 0 : (from - begin) / step, within = from - begin - run * step;
  return within < bytes ? from : begin + (run + 1) * step;
}

void ShardFile::Wanted::copy(const char* all, int64_t from, int64_t to) const {
  if (into == nullptr) return;
  for (int64_t at = next(from); at < std::min(to, end()); at = next(at)) {
    const int64_t run = step == 0 ? 0 : (at - begin) / step, within = at - begin - run * step;
    const int64_t numel = std::min(bytes - within, to - at);
    std::memcpy(into + run * step_into + within, all + (at - from), static_cast<size_t>(numel));
    at += numel;
  }
}

char* ShardFile::Wanted::place_of(int64_t from, int64_t to) const {
  if (into == nullptr || from < begin || from >= end()) return nullptr;
  const int64_t run = step == 0 ? 0 : (from - begin) / step, within = from - begin - run * step;
  return within + (to - from) <= bytes ? into + run * step_into + within : nullptr;
}

int64_t ShardFile::end_of(const Entry& entry, int64_t block) {
  return std::min((block + 1) * kHashBlockBytes, entry.bytes());
}

std::string_view ShardFile::saved_hash(const Entry& entry, int64_t block) const {
  const size_t first = first_hash_[static_cast<size_t>(&entry - file_.entries().data())];
  return hashes_.substr((first + static_cast<size_t>(block)) * files::kHashDigits, files::kHashDigits);
}

}  // namespace fsdp::checkpoint
