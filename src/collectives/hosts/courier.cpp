#include "collectives/hosts/courier.h"

#include <algorithm>
#include <utility>

namespace fsdp::collectives::hosts {

namespace {

std::exception_ptr failure_of(const Consignment& consignment) {
  try {
    for (const auto& message : consignment.messages) message->wait();
    consignment.arrived();
  } catch (...) {
    return std::current_exception();
  }
  return {};
}

}  // namespace

Courier::~Courier() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Courier::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Consignment& consignment = *queue_.front();
    lock.unlock();
    std::exception_ptr failure = failure_of(consignment);
    lock.lock();
    // Where it arrived at the last moment, those behind it are left to the next call: the watch calls once a second.
    if (std::exchange(aborting_, false) && failure) {
      for (Consignment* behind : queue_) ends(*behind, failure);
      queue_.clear();
    } else {
      ends(consignment, failure);
      queue_.pop_front();
    }
    changed_.notify_all();
  }
}

void Courier::ends(Consignment& consignment, std::exception_ptr failure) {
  consignment.failure = std::move(failure);
  consignment.under_way = false;
}

void Courier::take(Consignment& consignment) {
  std::lock_guard lock(mutex_);
  consignment.under_way = true;
  consignment.failure = {};
  queue_.push_back(&consignment);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void Courier::wait(Consignment& consignment) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !consignment.under_way; });
  if (consignment.failure) std::rethrow_exception(consignment.failure);
}

void Courier::abort() noexcept {
  std::lock_guard lock(mutex_);
  if (queue_.empty()) return;
  aborting_ = true;
  for (const auto& message : queue_.front()->messages) message->abort();
}

void Courier::cancel(Consignment& consignment) noexcept {
  std::unique_lock lock(mutex_);
  if (!consignment.under_way) return;
  if (queue_.front() != &consignment) {
    std::erase(queue_, &consignment);
    consignment.under_way = false;
    return;
  }
  for (const auto& message : consignment.messages) message->abort();
  changed_.wait(lock, [&] { return !consignment.under_way; });
}

}  // namespace fsdp::collectives::hosts
