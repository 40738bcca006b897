#include "collectives/hosts/transfer_queue.h"

#include <algorithm>
#include <utility>

#include "base/rank_thread.h"

namespace fsdp::collectives::hosts {

namespace {

std::exception_ptr failure_of(const Transfer& transfer) {
  try {
    for (const auto& message : transfer.messages) message->wait();
    transfer.arrived();
  } catch (...) {
    return std::current_exception();
  }
  return {};
}

}  // namespace

TransferQueue::~TransferQueue() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void TransferQueue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Transfer& transfer = *queue_.front();
    lock.unlock();
    std::exception_ptr failure = failure_of(transfer);
    lock.lock();
    // Where it arrived at the last moment, those behind it are left to the next call: the watchdog calls once per
    // second.
    if (std::exchange(aborting_, false) && failure) {
      for (Transfer* behind : queue_) ends(*behind, failure);
      queue_.clear();
    } else {
      ends(transfer, failure);
      queue_.pop_front();
    }
    changed_.notify_all();
  }
}

void TransferQueue::ends(Transfer& transfer, std::exception_ptr failure) {
  transfer.failure = std::move(failure);
  transfer.under_way = false;
}

void TransferQueue::add(Transfer& transfer) {
  std::lock_guard lock(mutex_);
  transfer.under_way = true;
  transfer.failure = {};
  queue_.push_back(&transfer);
  if (!thread_.joinable()) thread_ = std::thread(of_this_rank([this] { run(); }));
  changed_.notify_all();
}

void TransferQueue::wait(Transfer& transfer) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !transfer.under_way; });
  if (transfer.failure) std::rethrow_exception(transfer.failure);
}

void TransferQueue::abort() noexcept {
  std::lock_guard lock(mutex_);
  if (queue_.empty()) return;
  aborting_ = true;
  for (const auto& message : queue_.front()->messages) message->abort();
}

void TransferQueue::cancel(Transfer& transfer) noexcept {
  std::unique_lock lock(mutex_);
  if (!transfer.under_way) return;
  if (queue_.front() != &transfer) {
    std::erase(queue_, &transfer);
    transfer.under_way = false;
    return;
  }
  for (const auto& message : transfer.messages) message->abort();
  changed_.wait(lock, [&] { return !transfer.under_way; });
}

}  // namespace fsdp::collectives::hosts
