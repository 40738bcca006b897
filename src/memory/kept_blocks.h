// Large blocks of memory for tensors. Some freed blocks are kept for the next ones, and the others go back to the
// system.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>

namespace fsdp::memory {

// Any thread. It keeps at most a quarter of the most memory that was in use at once, and no block that is larger than
// that. Before it requests a block from the system, it returns kept ones, the oldest first, until there is room. So
// blocks in use and kept ones together never exceed the peak in use.
class KeptBlocks {
 public:
  KeptBlocks() = default;
  ~KeptBlocks();  // gives the kept ones back
  KeptBlocks(const KeptBlocks&) = delete;
  KeptBlocks& operator=(const KeptBlocks&) = delete;

  // At the beginning of a page, and with any content; null where the system has no memory for it.
  void* take(size_t bytes);
  // True if it is a block that was taken and not given back.
  bool has(void* block) const;
  void give_back(void* block);

  struct Bytes {
    size_t in_use = 0, kept = 0, most_in_use = 0;
  };
  Bytes bytes() const;

 private:
  struct Block {
    void* begin;
    size_t bytes;
  };
  using Blocks = std::list<Block>;
  void* take_kept(size_t bytes);
  void* map(size_t bytes);
  void drop(Blocks::iterator block);
  static void unmap(const Block& block);
  void keep_at_most(size_t bytes);

  mutable std::mutex mutex_;
  Blocks kept_;  // the oldest first
  std::multimap<size_t, Blocks::iterator> by_size_;
  std::unordered_map<void*, size_t> in_use_;
  Bytes bytes_;
};

}  // namespace fsdp::memory
