// A short text that a forked rank sets, and that its parent and the processes forked later read.
#pragma once

#include <fsdp/error.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <string>

namespace trainer {

// A process that dies while it sets the text leaves the one before. One process at a time sets it.
class SharedText {
 public:
  static constexpr size_t kMostBytes = 4096;

  SharedText() : memory_(mmap(nullptr, sizeof(Cell), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) throw fsdp::Error("no memory is left for this program to start.");
    cell_ = new (memory_) Cell;
  }
  ~SharedText() { munmap(memory_, sizeof(Cell)); }
  SharedText(const SharedText&) = delete;
  SharedText& operator=(const SharedText&) = delete;

  // Throws fsdp::Error for a text that is too long.
  void set(const std::string& text) {
    if (text.size() > kMostBytes) throw fsdp::Error("a text of " + std::to_string(text.size()) + " bytes is too long.");
    const size_t next = 1 - cell_->current.load();
    Text& place = cell_->texts[next];
    place.size = text.copy(place.bytes.data(), kMostBytes);
    cell_->current.store(next);
  }
  std::string get() const {
    const Text& place = cell_->texts[cell_->current.load()];
    return {place.bytes.data(), place.size};
  }

 private:
  struct Text {
    size_t size = 0;
    std::array<char, kMostBytes> bytes;
  };
  struct Cell {
    std::atomic<size_t> current{0};
    std::array<Text, 2> texts;
  };

  void* memory_;
  Cell* cell_;
};

}  // namespace trainer
