// Counts the processes that a test starts: each adds a byte to the file that FSDP_STARTED_PROCESSES names. Preloaded by
// tools/test_times.py.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>

namespace {

void count() {
  const char* file = std::getenv("FSDP_STARTED_PROCESSES");
  const int descriptor = file ? open(file, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
  if (descriptor < 0) return;
  [[maybe_unused]] const ssize_t written = write(descriptor, ".", 1);
  close(descriptor);
}

[[gnu::constructor]] void begin() {
  count();
  pthread_atfork(nullptr, nullptr, count);
}

}  // namespace
