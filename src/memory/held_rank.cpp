// A rank's part of the memory that its launcher holds.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "memory/held_memory.h"
#include "memory/pages.h"

namespace fsdp::memory {

namespace {

// The texts lie before the tensors.
constexpr size_t kPlacesAt = 0, kNumbersAt = size_t{1} << 40;

void write_text(const MemoryFile& file, size_t at, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t count =
        pwrite(file.descriptor(), text.data() + done, text.size() - done, static_cast<off_t>(at + done));
    if (count < 0 && errno == EINTR) continue;
    FSDP_CHECK(count > 0, "hot_restart: no memory of {} bytes for the table of held tensors: {}.", text.size(),
               std::strerror(errno));
    done += static_cast<size_t>(count);
  }
}

std::string read_text(const MemoryFile& file, size_t at, size_t size) {
  std::string text(size, '\0');
  for (size_t done = 0; done < size;) {
    const ssize_t count = pread(file.descriptor(), text.data() + done, size - done, static_cast<off_t>(at + done));
    if (count < 0 && errno == EINTR) continue;
    FSDP_INVARIANT(count > 0, "the table of held tensors ends after {} of {} bytes", done, size);
    done += static_cast<size_t>(count);
  }
  return text;
}

uint64_t hexadecimal(const std::string& text, size_t from, size_t to) {
  uint64_t number = 0;
  std::from_chars(text.data() + from, text.data() + to, number, 16);
  return number;
}

}  // namespace

void HeldRank::changes() noexcept {
  std::atomic<uint64_t>& epoch = memory_.record(memory_.current_, rank_).epoch;
  // Before it was whole for the first time there is nothing to lose.
  if (const uint64_t now = epoch.load(); now != 0 && now % 2 == 0) epoch.store(now + 1);
}

void HeldRank::set_places(std::string text, std::vector<const void*> addresses) {
  addresses_ = std::move(addresses);
  are_written_ = are_written_ && text == places_;
  places_ = std::move(text);
}

void HeldRank::commit(int64_t step, const std::string& numbers) {
  HeldMemory::Record& record = memory_.record(memory_.current_, rank_);
  const uint64_t epoch = record.epoch.load();
  record.epoch.store(epoch | 1);
  if (!are_written_) write_text(file(), kPlacesAt, places_);
  are_written_ = true;
  write_text(file(), kNumbersAt, numbers);
  record.step = step;
  record.places_bytes = places_.size();
  record.numbers_bytes = numbers.size();
  record.epoch.store((epoch | 1) + 1);
}

// Every line of the kernel's table that maps one of the files: proc(5), "begin-end rights offset device inode path".
HeldRank::Places::Places(const HeldRank& held) {
  std::map<uint64_t, int> rank_of_inode;
  const std::vector<MemoryFile>& files = held.files();
  for (size_t rank = 0; rank < files.size(); ++rank) {
    struct stat facts {};
    FSDP_INVARIANT(fstat(files[rank].descriptor(), &facts) == 0, "a file in memory has no facts: {}",
                   std::strerror(errno));
    rank_of_inode[facts.st_ino] = static_cast<int>(rank);
  }
  std::ifstream table("/proc/self/maps");
  for (std::string line; std::getline(table, line);) {
    if (line.find("/memfd:") == std::string::npos) continue;
    std::istringstream fields(line);
    std::string addresses, rights, offset, device;
    uint64_t inode = 0;
    fields >> addresses >> rights >> offset >> device >> inode;
    const auto rank = rank_of_inode.find(inode);
    if (rank == rank_of_inode.end()) continue;
    const size_t dash = addresses.find('-');
    ranges_.push_back({hexadecimal(addresses, 0, dash),
                       hexadecimal(addresses, dash + 1, addresses.size()),
                       {rank->second, hexadecimal(offset, 0, offset.size())}});
  }
}

std::optional<HeldPlace> HeldRank::Places::of(const void* bytes, size_t size) const {
  const auto begin = reinterpret_cast<uintptr_t>(bytes);
  const auto after = std::ranges::upper_bound(ranges_, begin, {}, &Range::begin);
  if (after == ranges_.begin()) return std::nullopt;
  const Range& range = *std::prev(after);
  if (begin + size > range.end) return std::nullopt;
  return HeldPlace{range.place.rank, range.place.offset + (begin - range.begin)};
}

std::optional<HeldRank::Left> HeldRank::left() const {
  if (!memory_.left_) return std::nullopt;
  const HeldMemory::Record& record = memory_.record(*memory_.left_, rank_);
  if (record.epoch.load() == 0) return std::nullopt;  // it was taken over
  const MemoryFile& file = memory_.files_[*memory_.left_][static_cast<size_t>(rank_)];
  return Left{record.step, read_text(file, kPlacesAt, record.places_bytes),
              read_text(file, kNumbersAt, record.numbers_bytes)};
}

void HeldRank::read_left(const HeldPlace& place, size_t size,
                         const std::function<void(const void* bytes)>& read) const {
  const std::vector<MemoryFile>& files = memory_.files_[memory_.left_.value()];
  const size_t within = place.offset % kPageBytes;
  const Mapping pages(files.at(static_cast<size_t>(place.rank)), whole_pages(within + size), Access::Read,
                      place.offset - within);
  read(pages.base() + within);
}

void HeldRank::drop_left() { memory_.clear(memory_.left_.value(), rank_); }

}  // namespace fsdp::memory
