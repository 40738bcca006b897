// A value that a forked rank sets, and that its parent and the other ranks read.
#pragma once

#include <fsdp/error.h>
#include <sys/mman.h>

#include <atomic>
#include <new>

namespace trainer {

template <typename Value>
class SharedValue {
 public:
  explicit SharedValue(Value first)
      : memory_(mmap(nullptr, sizeof(Cell), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) throw fsdp::Error("no memory is left for this program to start.");
    cell_ = new (memory_) Cell(first);
  }
  ~SharedValue() { munmap(memory_, sizeof(Cell)); }
  SharedValue(const SharedValue&) = delete;
  SharedValue& operator=(const SharedValue&) = delete;

  void set(Value value) { cell_->store(value); }
  Value exchange(Value value) { return cell_->exchange(value); }
  Value get() const { return cell_->load(); }

 private:
  using Cell = std::atomic<Value>;
  static_assert(Cell::is_always_lock_free, "a lock would be one of this process only");

  void* memory_;
  Cell* cell_;
};

}  // namespace trainer
