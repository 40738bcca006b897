#include "base/unfinished_work.h"

#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <utility>
#include <vector>

namespace fsdp {

namespace {

// Never destroyed: a thread may be on its way out of it when the process ends. A process that the user forked has none
// of the threads, and waits for none.
struct WorkOfProcess {
  std::mutex mutex;
  std::condition_variable less;
  int count = 0;
  std::vector<std::function<std::string()>> texts;
  pid_t process = getpid();

  void wait_for_all() {
    if (getpid() != process) return;
    std::unique_lock lock(mutex);
    less.wait(lock, [this] { return count == 0; });
    for (const auto& text : std::exchange(texts, {})) std::cerr << text() << std::flush;
  }
  void forget_before_fork() {
    if (getpid() == process) return;
    process = getpid(), count = 0;
    texts.clear();
  }
};

WorkOfProcess& work_of_process() {
  static auto* const work = new WorkOfProcess;
  return *work;
}

}  // namespace

void wait_for_unfinished_work() { work_of_process().wait_for_all(); }

void tell_at_process_end(std::function<std::string()> text) {
  WorkOfProcess& work = work_of_process();
  const std::lock_guard lock(work.mutex);
  work.forget_before_fork();
  work.texts.push_back(std::move(text));
}

UnfinishedWork::UnfinishedWork() {
  static const int registered = std::atexit(wait_for_unfinished_work);  // now: what is made later is destroyed before
  static_cast<void>(registered);
  WorkOfProcess& work = work_of_process();
  const std::lock_guard lock(work.mutex);
  work.forget_before_fork();
  ++work.count;
}

UnfinishedWork::~UnfinishedWork() {
  WorkOfProcess& work = work_of_process();
  const std::lock_guard lock(work.mutex);
  --work.count;
  work.less.notify_all();
}

}  // namespace fsdp
