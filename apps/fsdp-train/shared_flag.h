// A flag that a forked rank sets and its parent reads.
#pragma once

#include <fsdp/error.h>
#include <sys/mman.h>

#include <atomic>
#include <new>

namespace trainer {

class SharedFlag {
 public:
  SharedFlag() : memory_(mmap(nullptr, sizeof(Flag), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) throw fsdp::Error("no memory is left for this program to start.");
    flag_ = new (memory_) Flag(false);
  }
  ~SharedFlag() { munmap(memory_, sizeof(Flag)); }
  SharedFlag(const SharedFlag&) = delete;
  SharedFlag& operator=(const SharedFlag&) = delete;

  void set() { flag_->store(true); }
  bool is_set() const { return flag_->load(); }

 private:
  using Flag = std::atomic<bool>;
  static_assert(Flag::is_always_lock_free, "a lock would be one of this process only");

  void* memory_;
  Flag* flag_;
};

}  // namespace trainer
