#include "collectives/shm/process_memory.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <random>

namespace fsdp::collectives::shm {

namespace {

uint64_t random_word() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

void* pointer_to(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

ProcessWord::ProcessWord() : word_(std::make_unique<const uint64_t>(random_word())) {}

ProcessAddress ProcessWord::address() const {
  return {.process = getpid(), .word_at = reinterpret_cast<uint64_t>(word_.get()), .word = *word_};
}

// The kernel opens the address space once per call, so the bytes are from where the word is.
ProcessMemory::Result ProcessMemory::read(void* to, uint64_t from, size_t bytes) const {
  uint64_t word = 0;
  const std::array<iovec, 2> own{{{&word, sizeof word}, {to, bytes}}};
  const std::array<iovec, 2> theirs{{{pointer_to(address_.word_at), sizeof word}, {pointer_to(from), bytes}}};
  const size_t parts = bytes > 0 ? 2 : 1;
  const ssize_t count = process_vm_readv(address_.process, own.data(), parts, theirs.data(), parts, 0);
  if (count < 0 && errno == ESRCH) return {Outcome::Gone, 0};
  if (count < static_cast<ssize_t>(sizeof word)) return {Outcome::Refused, 0};
  if (word != address_.word) return {Outcome::Gone, 0};
  const size_t read = static_cast<size_t>(count) - sizeof word;
  return {read == 0 && bytes > 0 ? Outcome::Refused : Outcome::Read, read};
}

void let_siblings_read() {
  int scope = 0;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  // A parent of number 1 is the ancestor of all processes, and 0 is in another namespace.
  if (const pid_t parent = getppid(); scope == 1 && parent > 1) prctl(PR_SET_PTRACER, parent, 0, 0, 0);
}

}  // namespace fsdp::collectives::shm
