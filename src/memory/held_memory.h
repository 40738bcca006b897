// Memory that outlives the ranks of a job: the launcher holds it, and ranks that it forks after a failure find there
// what the ones before them had.
//
// There are two sets of a file for each rank, in memory, and a record beside it. The ranks that run write one set; the
// other is what was left. A record has an epoch: odd while the rank's state changes, even when it is whole, at the step
// that the record names; 0 before it was whole for the first time. A set is whole where all its records are, at one
// step. A process that is killed leaves all that it wrote: what it was in the midst of shows in the epoch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory/memory_file.h"

namespace fsdp::memory {

// The launcher's. One thread.
class HeldMemory {
 public:
  explicit HeldMemory(int ranks);
  ~HeldMemory();
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;

  int ranks() const { return ranks_; }

  // The state that the ranks so far have left.
  struct Left {
    std::optional<int64_t> step;  // whole, after so many steps
    std::string problem;          // why it is not whole; empty: it is, or nothing was written
  };
  Left left() const;
  // Before ranks are forked: they go on from what was left, if that is whole.
  void begin();
  // Ranks that failed by an error before they had taken over what was left would fail again: the next ones do without.
  void forget_unless_taken_over();
  // True if a rank that is ended now leaves its state whole.
  bool is_whole(int rank) const;

 private:
  friend class HeldRank;
  struct Record {
    std::atomic<uint64_t> epoch{0};
    // Written while the epoch is odd.
    int64_t step = 0;
    uint64_t places_bytes = 0, numbers_bytes = 0;
  };
  static constexpr int kSets = 2;

  Record& record(int set, int rank) const;
  bool was_written(int set) const;
  std::string problem_of(int set) const;
  std::optional<int> set_left() const;
  void clear(int set, int rank) const;

  int ranks_;
  Record* records_;
  std::vector<MemoryFile> files_[kSets];  // by rank
  int current_ = 0;                       // the set that the ranks write
  std::optional<int> left_;               // the set that they go on from
};

// Bytes in the file of a rank.
struct HeldPlace {
  int rank = 0;
  uint64_t offset = 0;
};

// One rank's part, in its process. One thread at a time, but for `changes`.
class HeldRank {
 public:
  // `memory` outlives this.
  HeldRank(const HeldMemory& memory, int rank) : memory_(memory), rank_(rank) {}

  int rank() const { return rank_; }
  const MemoryFile& file() const { return files()[static_cast<size_t>(rank_)]; }
  // Tensors and files of the rank begin at these bytes of its file, each file at a multiple.
  static constexpr size_t kTensors = size_t{1} << 44, kFiles = size_t{1} << 45, kFileBytes = size_t{1} << 43;

  // The state is not whole until `commit`.
  void changes() noexcept;
  // True if the text that was set last tells where these tensors lie.
  bool knows(const std::vector<const void*>& addresses) const { return !addresses.empty() && addresses == addresses_; }
  void set_places(std::string text, std::vector<const void*> addresses);
  // Memory was taken: what lies at an address may be another tensor.
  void forget_places() { addresses_.clear(); }
  // The state is whole, after `step` steps. The texts say where it lies and what else belongs to it.
  void commit(int64_t step, const std::string& numbers);

  // Where bytes of this process lie in a file of the set that is written; none: not there. The second: of many at
  // once.
  class Places {
   public:
    explicit Places(const HeldRank& held);
    std::optional<HeldPlace> of(const void* bytes, size_t size) const;

   private:
    struct Range {
      uint64_t begin, end;
      HeldPlace place;
    };
    std::vector<Range> ranges_;  // by ascending beginnings
  };

  // The state that a rank of this number left; none: the ranks begin without.
  struct Left {
    int64_t step = 0;
    std::string places, numbers;
  };
  std::optional<Left> left() const;
  // `size` bytes of what was left, to be read. Throws Error.
  void read_left(const HeldPlace& place, size_t size, const std::function<void(const void* bytes)>& read) const;
  // It is taken over: its memory is given back. Every rank gives back its own part.
  void drop_left();

 private:
  const std::vector<MemoryFile>& files() const { return memory_.files_[memory_.current_]; }

  const HeldMemory& memory_;
  int rank_;
  std::string places_;
  std::vector<const void*> addresses_;  // of its tensors; empty: not known
  bool are_written_ = false;            // the places
};

}  // namespace fsdp::memory
