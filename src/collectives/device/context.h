// The state that a group over a device's own collectives shares with its units: c10d's process groups, a group on the
// CPU beside them, the order of reductions, and the first failure.
//
// Process groups move the device's tensors: each runs on a stream of its own, which waits for the caller's current one
// when something is begun; waiting makes the current stream wait, and not the host. The group on the CPU carries what
// ranks tell each other: so a rank that died or diverged is named, as on every other backend. A failure gives up what
// the device still waits for; every later call throws it again. One thread at a time.
#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/failure_latch.h"
#include "collectives/device/order_words.h"
#include "collectives/device/reduction_order.h"
#include "collectives/group.h"
#include "layout/unit_layout.h"

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
  DeviceContext(std::shared_ptr<Group> host, Connect connect, torch::Device device);
  // Ends the process groups: after a failure at once, otherwise when the peers do as well.
  ~DeviceContext();

  Group& host() { return *host_; }
  const torch::Device& device() const { return device_; }
  // All ranks, by their numbers.
  const c10::intrusive_ptr<c10d::Backend>& everyone() { return channel("everyone", host_->rank(), host_->size()); }
  Channels channels(const layout::UnitLayout& layout);

  // A unit's reductions go out in an order that all ranks have in common. A collective.
  void add(int id, DeviceUnit& unit);
  void remove(int id) { units_.erase(id); }
  // This rank has begun one of the unit.
  void begin_reduction(int id);
  // Whether the one under way is still to be sent.
  bool held_back(int id);
  // Sends it. Every rank begins every reduction by now that any begins.
  void flush(int id);
  void reductions_end(bool everywhere);

  // Runs `operation`, unless an earlier one failed. `prefix` starts the message and `name` names what was tried.
  template <typename Operation>
  auto guarded(const std::string& prefix, const char* name, Operation&& operation) {
    return latch_.run(operation, [&](std::exception_ptr failure) { return explain(prefix + name, failure); });
  }

 private:
  void send(const std::vector<int>& units);
  void hear_words();
  const c10::intrusive_ptr<c10d::Backend>& channel(const std::string& name, int rank, int size);
  // Of a failure: gives up what the device waits for, and returns what the caller is told.
  std::exception_ptr explain(const std::string& start, const std::exception_ptr& failure);

  std::shared_ptr<Group> host_;
  Connect connect_;
  torch::Device device_;
  std::map<std::string, c10::intrusive_ptr<c10d::Backend>> channels_;
  std::map<int, DeviceUnit*> units_;  // those that live
  ReductionOrder order_;
  OrderWords words_{*host_};
  FailureLatch latch_;
};

}  // namespace fsdp::collectives::device
