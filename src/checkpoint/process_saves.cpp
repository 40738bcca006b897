#include "checkpoint/process_saves.h"

#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>

namespace fsdp::checkpoint {

namespace {

// Never destroyed: a thread may be on its way out of it when the process ends. A process that the user forked has none
// of the threads, and waits for none.
struct SavesOfProcess {
  std::mutex mutex;
  std::condition_variable fewer;
  int count = 0;
  pid_t process = getpid();

  void wait_for_all() {
    if (getpid() != process) return;
    std::unique_lock lock(mutex);
    fewer.wait(lock, [this] { return count == 0; });
  }
};

SavesOfProcess& saves_of_process() {
  static SavesOfProcess* const saves = [] {
    std::atexit([] { saves_of_process().wait_for_all(); });
    return new SavesOfProcess;
  }();
  return *saves;
}

}  // namespace

ProcessSave::ProcessSave() {
  SavesOfProcess& saves = saves_of_process();
  const std::lock_guard lock(saves.mutex);
  if (saves.process != getpid()) saves.process = getpid(), saves.count = 0;  // this one was forked
  ++saves.count;
}

ProcessSave::~ProcessSave() {
  SavesOfProcess& saves = saves_of_process();
  const std::lock_guard lock(saves.mutex);
  --saves.count;
  saves.fewer.notify_all();
}

}  // namespace fsdp::checkpoint
