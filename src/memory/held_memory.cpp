#include "memory/held_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/error.h"

namespace fsdp::memory {

namespace {

bool is_even(uint64_t epoch) { return epoch % 2 == 0; }

}  // namespace

HeldMemory::HeldMemory(int ranks) : ranks_(ranks) {
  const size_t count = size_t{kSets} * static_cast<size_t>(ranks);
  void* memory = mmap(nullptr, count * sizeof(Record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  FSDP_CHECK(memory != MAP_FAILED, "no memory is left for the records of {} ranks: {}.", ranks, std::strerror(errno));
  records_ = static_cast<Record*>(memory);
  for (size_t i = 0; i < count; ++i) new (&records_[i]) Record;
  for (auto& set : files_) {
    for (int rank = 0; rank < ranks; ++rank) set.push_back(MemoryFile::create());
  }
}

HeldMemory::~HeldMemory() { munmap(records_, size_t{kSets} * static_cast<size_t>(ranks_) * sizeof(Record)); }

HeldMemory::Record& HeldMemory::record(int set, int rank) const { return records_[set * ranks_ + rank]; }

bool HeldMemory::was_written(int set) const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (record(set, rank).epoch.load() != 0) return true;
  }
  return false;
}

std::string HeldMemory::problem_of(int set) const {
  const int64_t step = record(set, 0).step;
  for (int rank = 0; rank < ranks_; ++rank) {
    const Record& one = record(set, rank);
    const uint64_t epoch = one.epoch.load();
    if (epoch == 0) return fmt::format("rank {} had not begun", rank);
    if (!is_even(epoch)) return fmt::format("rank {} was changing its state", rank);
    if (one.step != step) {
      return fmt::format("rank 0 had done {} steps and rank {} {}", step, rank, one.step);
    }
  }
  return "";
}

// If ranks have not written their own set yet, the set of their start is unchanged.
std::optional<int> HeldMemory::set_left() const {
  for (const int set : {current_, 1 - current_}) {
    if (problem_of(set).empty()) return set;
  }
  return std::nullopt;
}

HeldMemory::Left HeldMemory::left() const {
  if (const auto set = set_left()) return {record(*set, 0).step, ""};
  return {std::nullopt, was_written(current_) ? problem_of(current_) : ""};
}

void HeldMemory::begin() {
  left_ = set_left();
  current_ = left_ ? 1 - *left_ : current_;
  for (int rank = 0; rank < ranks_; ++rank) {
    clear(current_, rank);
    if (!left_) clear(1 - current_, rank);
  }
}

void HeldMemory::forget_unless_taken_over() {
  if (was_written(current_)) return;
  for (int rank = 0; rank < ranks_; ++rank) {
    for (int set = 0; set < kSets; ++set) clear(set, rank);
  }
}

bool HeldMemory::is_whole(int rank) const { return is_even(record(current_, rank).epoch.load()); }

void HeldMemory::clear(int set, int rank) const {
  new (&record(set, rank)) Record;
  // Where it cannot be done the memory stays taken until the job ends, which is no error.
  (void)!ftruncate(files_[set][static_cast<size_t>(rank)].descriptor(), 0);
}

}  // namespace fsdp::memory
