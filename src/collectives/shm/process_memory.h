// The memory of a peer's process, as the system lets this one read it (process_vm_readv).
//
// A process number alone proves nothing: the peer may be gone and its number used again, or count in another PID
// namespace. So each rank has a random word in its own memory, and each read reads the peer's word in the same call.
// Knows neither tensors nor LibTorch.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace fsdp::collectives::shm {

// How the peers read a rank's memory. Plain data.
struct ProcessAddress {
  pid_t process = 0;
  uint64_t word_at = 0;
  uint64_t word = 0;
};

// This process's word, for one group.
class ProcessWord {
 public:
  ProcessWord();
  ProcessAddress address() const;

 private:
  std::unique_ptr<const uint64_t> word_;
};

class ProcessMemory {
 public:
  enum class Outcome {
    Read,
    Gone,     // the process, or it is another one
    Refused,  // by the system: this process, or this address
  };
  struct Result {
    Outcome outcome;
    size_t bytes;  // that were read, the first ones; at least one, if any were asked for
  };

  explicit ProcessMemory(const ProcessAddress& address) : address_(address) {}
  // `from` is an address there.
  Result read(void* to, uint64_t from, size_t bytes) const;
  // Returns whether the word can be read.
  bool is_readable() const { return read(nullptr, 0, 0).outcome == Outcome::Read; }

 private:
  ProcessAddress address_;
};

// Yama (kernel.yama.ptrace_scope = 1) lets a process be read by its ancestors alone. Then this permits the descendants
// of this process's parent, a launcher, to read it: its sibling ranks. Elsewhere it does nothing. It replaces the
// program's own PR_SET_PTRACER.
void let_siblings_read();

}  // namespace fsdp::collectives::shm
