#include "collectives/pumps.h"

#include <condition_variable>
#include <stop_token>
#include <utility>

#include "base/rank_thread.h"

namespace fsdp::collectives {

void PumpList::add(Pump& pump) {
  const std::lock_guard lock(mutex_);
  pumps_.push_back(&pump);
  size_ = pumps_.size();
}

void PumpList::remove(const Pump& pump) {
  const std::lock_guard lock(mutex_);
  std::erase(pumps_, &pump);
  size_ = pumps_.size();
}

bool PumpList::pump() noexcept {
  const std::lock_guard lock(mutex_);
  bool has_moved = false;
  for (Pump* pump : pumps_) has_moved |= pump->pump();
  return has_moved;
}

const std::shared_ptr<PumpList>& pumps_of_this_thread() {
  thread_local const auto list = std::make_shared<PumpList>();
  return list;
}

void PumpPlace::add_message() {
  if (messages_++ == 0) set_list(pumps_of_this_thread());
}

void PumpPlace::remove_message() {
  if (--messages_ == 0) set_list(nullptr);
}

void PumpPlace::set_list(std::shared_ptr<PumpList> list) {
  if (list_) list_->remove(pump_);
  list_ = std::move(list);
  if (list_) list_->add(pump_);
}

namespace {

void pump_until(const std::stop_token& stop, PumpList& list) {
  std::mutex mutex;
  std::condition_variable_any stops;
  std::unique_lock lock(mutex);
  PumpPause pause;
  while (!stop.stop_requested()) {
    pause.note(list.pump());
    stops.wait_for(lock, stop, pause.length(), [] { return false; });
  }
}

}  // namespace

PumpedWait::PumpedWait() {
  const std::shared_ptr<PumpList>& list = pumps_of_this_thread();
  if (list->is_empty()) return;
  helper_ = std::jthread(of_this_rank([list](const std::stop_token& stop) { pump_until(stop, *list); }));
}

}  // namespace fsdp::collectives
