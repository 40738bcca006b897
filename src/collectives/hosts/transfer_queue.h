// Waits for messages beside the rank's own thread, so that what the peers of its host need arrives though the rank is
// busy, or waits for something else.
//
// The calls come from one thread, but for `abort`. A thread of the queue's, started with the first transfer, takes them
// one after the other. Every transfer is waited for, or cancelled, before it or the queue is destroyed.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "collectives/transport.h"

namespace fsdp::collectives::hosts {

// Messages on their way, and what is done, in the queue's thread, once all have arrived. Stays where it is, and as it
// is, while it is queued.
struct Transfer {
  Messages messages;
  std::function<void()> arrived;
  // The queue's.
  bool under_way = false;
  std::exception_ptr failure;
};

class TransferQueue {
 public:
  TransferQueue() = default;
  ~TransferQueue();
  TransferQueue(const TransferQueue&) = delete;
  TransferQueue& operator=(const TransferQueue&) = delete;

  void add(Transfer& transfer);
  // Returns at once for one that was never added. Throws what its messages threw.
  void wait(Transfer& transfer);
  // Ends the waits for all that are under way, which throw TransportFailure: who waits for one waits for those before
  // it as well. From any thread.
  void abort() noexcept;
  // Gives it up: its memory is left alone from now on.
  void cancel(Transfer& transfer) noexcept;

 private:
  void run();
  void ends(Transfer& transfer, std::exception_ptr failure);

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by the mutex, and so is a transfer's state.
  std::deque<Transfer*> queue_;  // the first one is being waited for
  bool aborting_ = false;        // the first one fails, and so do those behind it
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace fsdp::collectives::hosts
