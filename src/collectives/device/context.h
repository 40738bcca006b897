// The state that a group over a device's own collectives shares with its units: c10d's process groups, a group on the
// CPU beside them, the order of reductions, and the first failure.
//
// Process groups move the device's tensors: each runs on a stream of its own, which waits for the caller's current one
// when something is begun; waiting makes the current stream wait, and not the host. The group on the CPU carries what
// ranks tell each other: so a rank that died or diverged is named, as on every other backend. A failure gives up what
// the device still waits for; every later call throws it again. So does what hangs on the device for longer than the
// timeout, while the host goes on or waits for the device. One thread at a time.
#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/failure_latch.h"
#include "collectives/device/reduction_order.h"
#include "collectives/device/regular_backwards.h"
#include "collectives/device/work_watch.h"
#include "collectives/group.h"
#include "layout/unit_layout.h"
#include "memory/side_stream.h"

namespace fsdp::collectives::device {

class DeviceUnit;

// A process group of `size` ranks, of which the caller is number `rank`; `name` is that of no other that this rank is
// in, and the same on all of them.
using Connect = std::function<c10::intrusive_ptr<c10d::Backend>(const std::string& name, int rank, int size)>;

// The process groups of the units of one shard group size.
struct Channels {
  c10::intrusive_ptr<c10d::Backend> gather;    // those of this one's shard group, by the shards they own; null for one
  c10::intrusive_ptr<c10d::Backend> reduce;    // all ranks, by the slices they add up
  c10::intrusive_ptr<c10d::Backend> replicas;  // those with the same shard, by the slices of it; null for one
};

class DeviceContext {
 public:
  DeviceContext(std::shared_ptr<Group> host, Connect connect, torch::Device device, std::chrono::milliseconds timeout);
  // Ends the process groups: after a failure at once, otherwise when the peers do as well.
  ~DeviceContext();

  Group& host() { return *host_; }
  const torch::Device& device() const { return device_; }
  // All ranks, by their numbers.
  const c10::intrusive_ptr<c10d::Backend>& everyone() { return channel("everyone", host_->rank(), host_->size()); }
  Channels channels(const layout::UnitLayout& layout);
  // For shards that lie on the host, and the gradients that are added to their sums.
  const memory::CopyStreams& copies() { return copies_ ? *copies_ : copies_.emplace(device_); }

  // `work` is under way from now on; `prefix` and `name` as of `guarded`.
  c10::intrusive_ptr<c10d::Work> begun(const std::string& prefix, const char* name,
                                       c10::intrusive_ptr<c10d::Work> work) {
    watch_.begins(prefix + name, work);
    return work;
  }

  // A unit's reductions go out in an order that all ranks have in common. A collective.
  void add(int id, DeviceUnit& unit);
  void remove(int id) { units_.erase(id); }
  // This rank has begun one of the unit.
  void begin_reduction(int id);
  // True if the one under way is still to be sent.
  bool held_back(int id);
  // True if every rank has sent the one under way, as this rank has. A rank sends it after all earlier ones in the
  // order, so every rank must have begun those, too. Yes, or a peer stalls.
  Begun wait_sent(int id);
  // Sends it. Every rank begins every reduction by now that any begins.
  void flush(int id);
  RegularBackwards& backwards() { return backwards_; }
  std::vector<int> reductions_end(bool everywhere, bool as_before);
  void ranks_differ(bool differ);

  // Where a wait makes the host wait, as on a CPU in a device's place: whether the work is not over within a second.
  // After one that was not, others are given less time until the end of the backward.
  bool stalls(c10d::Work& work);

  // Runs `operation`, unless an earlier one failed. `prefix` starts the message and `name` names what was tried.
  template <typename Operation>
  auto guarded(const std::string& prefix, const char* name, Operation&& operation) {
    const auto checked = [&] {
      watch_.check();
      return operation();
    };
    return latch_.run(checked, [&](const std::exception_ptr& failure) { return explain(prefix + name, failure); });
  }

 private:
  void send(const std::vector<int>& units);
  std::vector<int> correct_flags();
  void learn_order(const std::vector<int>& begun);
  const c10::intrusive_ptr<c10d::Backend>& channel(const std::string& name, int rank, int size);
  void abort();
  // After a failure: aborts the device's waits, and returns the caller's error.
  std::exception_ptr explain(const std::string& start, const std::exception_ptr& failure);

  std::shared_ptr<Group> host_;
  Connect connect_;
  torch::Device device_;
  std::optional<memory::CopyStreams> copies_;
  bool stalled_ = false;
  std::mutex channels_mutex_;
  std::map<std::string, c10::intrusive_ptr<c10d::Backend>> channels_;
  std::map<int, DeviceUnit*> units_;  // the live ones
  ReductionOrder order_;
  RegularBackwards backwards_;
  FailureLatch latch_;
  WorkWatch watch_;  // ends before the process groups
};

}  // namespace fsdp::collectives::device
