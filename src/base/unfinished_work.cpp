#include "base/unfinished_work.h"

#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>

namespace fsdp {

namespace {

// Never destroyed: a thread may be on its way out of it when the process ends. A process that the user forked has none
// of the threads, and waits for none.
struct WorkOfProcess {
  std::mutex mutex;
  std::condition_variable less;
  int count = 0;
  pid_t process = getpid();

  void wait_for_all() {
    if (getpid() != process) return;
    std::unique_lock lock(mutex);
    less.wait(lock, [this] { return count == 0; });
  }
};

WorkOfProcess& work_of_process() {
  static WorkOfProcess* const work = [] {
    std::atexit([] { wait_for_unfinished_work(); });
    return new WorkOfProcess;
  }();
  return *work;
}

}  // namespace

void wait_for_unfinished_work() { work_of_process().wait_for_all(); }

UnfinishedWork::UnfinishedWork() {
  WorkOfProcess& work = work_of_process();
  const std::lock_guard lock(work.mutex);
  if (work.process != getpid()) work.process = getpid(), work.count = 0;  // this one was forked
  ++work.count;
}

UnfinishedWork::~UnfinishedWork() {
  WorkOfProcess& work = work_of_process();
  const std::lock_guard lock(work.mutex);
  --work.count;
  work.less.notify_all();
}

}  // namespace fsdp
