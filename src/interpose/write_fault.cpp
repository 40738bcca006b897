#include "interpose/write_fault.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/error.h"

namespace fsdp::interpose {

// Entries make a list that only grows, as the handler may look at any of them at any time: one whose range has gone is
// used again.
struct GuardedRange::Entry {
  std::atomic<uintptr_t> begin{0}, end{0};
  std::string prefix;
  const std::atomic<const char*>* operation = nullptr;
  Entry* next = nullptr;
};

namespace {

std::atomic<GuardedRange::Entry*> first_entry = nullptr;
std::mutex unused_mutex;  // guards what follows, and who adds entries
std::vector<GuardedRange::Entry*> unused_entries;
struct sigaction before_ours;  // written once

constexpr const char* kWrote =
    " wrote to a full parameter, whose memory is read-only, outside of full_parameters(). If an operator's schema does "
    "not declare that it writes the parameter (Tensor(a!)), declare it there; call the operator inside "
    "sharded.full_parameters(), where writes are kept. The process ends by this fault.\n";

// From here to `on_fault` nothing but what a signal handler may call.
void say(const char* text) {
  size_t left = std::strlen(text);
  while (left > 0) {
    const ssize_t written = write(STDERR_FILENO, text, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text += written;
    left -= static_cast<size_t>(written);
  }
}

void tell(const void* address) {
  static std::atomic<bool> told = false;
  const auto found = reinterpret_cast<uintptr_t>(address);
  for (const GuardedRange::Entry* entry = first_entry.load(); entry != nullptr; entry = entry->next) {
    if (found < entry->begin.load() || found >= entry->end.load()) continue;
    if (told.exchange(true)) return;
    const char* operation = entry->operation->load();
    say(entry->prefix.c_str());
    say(operation != nullptr ? operation : "something");
    say(kWrote);
    return;
  }
}

// A fault of the processor comes again when its handler returns; a signal that was sent does not.
void pass_on(int signal, siginfo_t* info, void* context) {
  const bool sent = info->si_code <= 0;
  if ((before_ours.sa_flags & SA_SIGINFO) != 0) return before_ours.sa_sigaction(signal, info, context);
  if (before_ours.sa_handler == SIG_IGN && sent) return;
  if (before_ours.sa_handler != SIG_IGN && before_ours.sa_handler != SIG_DFL) return before_ours.sa_handler(signal);
  sigaction(signal, &before_ours, nullptr);
  if (sent) raise(signal);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (info->si_code == SEGV_ACCERR) tell(info->si_addr);
  errno = error;
  pass_on(signal, info, context);
}

void install_handler() {
  struct sigaction ours = {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGSEGV, &ours, &before_ours);
}

GuardedRange::Entry* add_entry() {
  GuardedRange::Entry* before = first_entry.load();
  if (before == nullptr) install_handler();
  auto* entry = new GuardedRange::Entry;
  entry->next = before;
  first_entry.store(entry);
  return entry;
}

GuardedRange::Entry* take_entry() {
  std::lock_guard lock(unused_mutex);
  if (unused_entries.empty()) return add_entry();
  GuardedRange::Entry* entry = unused_entries.back();
  unused_entries.pop_back();
  return entry;
}

}  // namespace

GuardedRange::GuardedRange(const std::string& unit, const std::atomic<const char*>& operation) : entry_(take_entry()) {
  entry_->prefix = message_prefix(unit);
  entry_->operation = &operation;
}

GuardedRange::~GuardedRange() {
  clear();
  std::lock_guard lock(unused_mutex);
  unused_entries.push_back(entry_);
}

void GuardedRange::set(const void* begin, size_t bytes) noexcept {
  entry_->end.store(0);  // a fault that comes meanwhile is in neither range
  entry_->begin.store(reinterpret_cast<uintptr_t>(begin));
  entry_->end.store(reinterpret_cast<uintptr_t>(begin) + bytes);
}

}  // namespace fsdp::interpose
