#include "data/shrunk_pages.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace data {

namespace {

std::atomic<WatchedMapping*> first_mapping{nullptr};
struct sigaction previous_action {};
uintptr_t page_bytes = 0;

static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

WatchedMapping* mapping_at(uintptr_t address) {
  for (WatchedMapping* mapping = first_mapping.load(); mapping != nullptr; mapping = mapping->next) {
    if (mapping->begin.load() <= address && address < mapping->end.load()) return mapping;
  }
  return nullptr;
}

// Zeros from the page of `address` on: what follows lies past the file's end as well.
bool put_zeros(WatchedMapping& mapping, uintptr_t address) {
  const uintptr_t page = address / page_bytes * page_bytes;
  mapping.has_shrunk.store(true);
  return mmap(reinterpret_cast<void*>(page), mapping.end.load() - page, PROT_READ,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

void pass_on(int number, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) return previous_action.sa_sigaction(number, info, context);
  if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    return previous_action.sa_handler(number);
  }
  // Raised once more, for one that was sent: it arrives when this handler has returned.
  sigaction(number, &previous_action, nullptr);
  raise(number);
}

void on_bus_error(int number, siginfo_t* info, void* context) {
  const int error = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const bool is_fault = info->si_code > 0;  // and not sent by a process
  WatchedMapping* mapping = is_fault ? mapping_at(address) : nullptr;
  if (mapping == nullptr || !put_zeros(*mapping, address)) pass_on(number, info, context);
  errno = error;
}

bool install() {
  page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGBUS, nullptr, &previous_action) == 0 && sigaction(SIGBUS, &action, nullptr) == 0;
}

WatchedMapping* unused_entry() {
  for (WatchedMapping* mapping = first_mapping.load(); mapping != nullptr; mapping = mapping->next) {
    bool taken = false;
    if (mapping->is_taken.compare_exchange_strong(taken, true)) return mapping;
  }
  auto* mapping = new WatchedMapping;  // for the rest of the process
  mapping->next = first_mapping.load();
  while (!first_mapping.compare_exchange_weak(mapping->next, mapping)) {
  }
  return mapping;
}

}  // namespace

WatchedMapping* watch(const void* memory, size_t size) {
  [[maybe_unused]] static const bool installed = install();
  WatchedMapping* mapping = unused_entry();
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  mapping->has_shrunk.store(false);
  mapping->begin.store(begin);
  mapping->end.store((begin + size + page_bytes - 1) / page_bytes * page_bytes);
  return mapping;
}

void give_up(WatchedMapping* mapping) {
  mapping->end.store(0);
  mapping->begin.store(0);
  mapping->is_taken.store(false);
}

}  // namespace data
