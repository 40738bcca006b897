#include "device/fork_check.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace fsdp::testing::device {

namespace {

std::atomic<pid_t> user{0};

}  // namespace

void note_use() {
  pid_t none = 0;
  if (user.compare_exchange_strong(none, getpid()) || none == getpid()) return;
  std::fprintf(stderr,
               "the tests' device: process %d uses CUDA, which its parent, process %d, had used before it forked. Fork "
               "first, or start a new program.\n",
               static_cast<int>(getpid()), static_cast<int>(none));
  std::abort();
}

}  // namespace fsdp::testing::device
