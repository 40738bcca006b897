// Messages that move only while a thread moves them, and threads that wait for something else meanwhile.
//
// The bytes of a long message are read from its sender's memory, or go through shared memory in pieces, and no thread
// does so beside the program (shm/transport.h). So a thread that waits, anywhere in the library, also moves the
// messages of the transports that it has used. Such a transport is a Pump, and is on the list of its thread while it
// has messages under way. A transport that another thread uses next follows to the list of that thread. A list has a
// lock, so a pump runs once at a time, and is never on two lists.
//
// Knows neither tensors nor LibTorch.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace fsdp::collectives {

class Pump {
 public:
  virtual ~Pump() = default;
  // Moves the bytes that can be moved now, and returns whether there were any. Throws nothing: an error belongs to the
  // waits for the pump's own messages.
  virtual bool pump() noexcept = 0;
};

// The pumps of one thread. Any thread.
class PumpList {
 public:
  void add(Pump& pump);
  // Returns when the pump does not run any more.
  void remove(const Pump& pump);
  bool is_empty() const { return size_ == 0; }
  // As Pump's, of all of them.
  bool pump() noexcept;

 private:
  std::mutex mutex_;
  std::vector<Pump*> pumps_;
  std::atomic<size_t> size_ = 0;
};

const std::shared_ptr<PumpList>& pumps_of_this_thread();

// The place of a pump, which owns it: on the list of a thread while it has messages, otherwise on none. One thread at a
// time.
class PumpPlace {
 public:
  explicit PumpPlace(Pump& pump) : pump_(pump) {}
  ~PumpPlace() { set_list(nullptr); }
  PumpPlace(const PumpPlace&) = delete;
  PumpPlace& operator=(const PumpPlace&) = delete;

  // One message more is under way, or one less.
  void add_message();
  void remove_message();
  bool has_messages() const { return messages_ > 0; }
  // To be called before this thread uses anything that the pump uses.
  void follow() {
    if (list_ && list_ != pumps_of_this_thread()) set_list(pumps_of_this_thread());
  }

 private:
  void set_list(std::shared_ptr<PumpList> list);

  Pump& pump_;
  int messages_ = 0;
  std::shared_ptr<PumpList> list_;  // null: on none
};

// The time that a waiting thread may sleep between two pumps: short while bytes move.
class PumpPause {
 public:
  static constexpr std::chrono::microseconds kShortest{50}, kLongest{10'000};

  void note(bool has_moved) { length_ = has_moved ? kShortest : std::min(2 * length_, kLongest); }
  std::chrono::microseconds length() const { return length_; }

 private:
  std::chrono::microseconds length_ = kShortest;
};

// The pumping of a thread that looks at its condition again and again, and sleeps in between.
class PumpingWait {
 public:
  // This thread begins to wait.
  void begin() { list_ = pumps_of_this_thread(); }
  void pump() {
    if (!list_->is_empty()) pause_.note(list_->pump());
  }
  // The time that it may sleep, of that which it would otherwise.
  std::chrono::microseconds part_of(std::chrono::microseconds sleep) const {
    return list_->is_empty() ? sleep : std::min(sleep, pause_.length());
  }

 private:
  std::shared_ptr<PumpList> list_;
  PumpPause pause_;
};

// While it lives, this thread waits for something that it cannot look at. A thread that exists only as long pumps in
// its place, if there is anything to pump.
class PumpedWait {
 public:
  PumpedWait();

 private:
  std::jthread helper_;
};

}  // namespace fsdp::collectives
