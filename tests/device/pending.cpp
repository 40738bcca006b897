#include "device/pending.h"

#include <map>
#include <mutex>

namespace fsdp::testing::device {

namespace {

struct PendingState {
  std::mutex mutex;
  std::map<const PendingWork*, std::function<void()>> all;
};

PendingState& pending_state() {
  static auto* state = new PendingState;
  return *state;
}

}  // namespace

PendingWork::PendingWork(std::function<void()> finish) {
  PendingState& s = pending_state();
  std::lock_guard lock(s.mutex);
  s.all.emplace(this, std::move(finish));
}

PendingWork::~PendingWork() {
  PendingState& s = pending_state();
  std::lock_guard lock(s.mutex);
  s.all.erase(this);
}

void finish_pending_work() {
  std::map<const PendingWork*, std::function<void()>> all;
  {
    PendingState& s = pending_state();
    std::lock_guard lock(s.mutex);
    all = s.all;
  }
  for (const auto& [work, finish] : all) finish();
}

}  // namespace fsdp::testing::device
