// How replicas of a shard give each other the slices of its gradients that each has added up, over a wire.
//
// One thread at a time.
#pragma once

#include <torch/types.h>

#include <utility>
#include <vector>

#include "collectives/tags.h"
#include "collectives/wire.h"
#include "layout/gradient_layout.h"

namespace fsdp::collectives {

class ReplicaSums {
 public:
  // `unit` is its number in the group.
  ReplicaSums(Wire& wire, const layout::UnitLayout& layout, int unit);

  // Sends this rank's slice of `sum`, which is as long as the shard in `gradients`, and receives the others into their
  // places. `sum` stays where it is, and this rank's slice as it is, until `wait`.
  void begin(const layout::GradientLayout& gradients, const torch::Tensor& sum);
  void wait();
  bool under_way() const { return sum_.defined(); }
  // The messages of `wait`, for another waiter.
  Messages hand_over() { return std::exchange(messages_, {}); }

 private:
  Wire* wire_;
  int tag_;
  std::vector<int> replicas_;
  // After the memory that they move: they are destroyed first.
  torch::Tensor sum_;
  Messages messages_;
};

}  // namespace fsdp::collectives
