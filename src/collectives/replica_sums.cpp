#include "collectives/replica_sums.h"

namespace fsdp::collectives {

ReplicaSums::ReplicaSums(Wire& wire, const layout::UnitLayout& layout, int unit)
    : wire_(&wire), tag_(tag_of(unit, UnitMessage::Sum)) {
  for (int peer : wire.peers()) {
    if (layout.shard_index(peer) == layout.shard_index(wire.rank())) replicas_.push_back(peer);
  }
}

// Every rank knows every rank's flags, so what each replica's slice holds is known without a word.
void ReplicaSums::begin(const layout::GradientLayout& gradients, const torch::Tensor& sum) {
  if (replicas_.empty()) return;
  sum_ = sum;
  // They lie in the sum as in the shard.
  auto slice_of = [&](int rank) {
    const layout::Range slice = gradients.slice_of(rank);
    return sum_.narrow(0, slice.begin - gradients.shard_of(wire_->rank()).begin, slice.numel());
  };
  for (int replica : replicas_) {
    const torch::Tensor theirs = slice_of(replica);
    messages_.push_back(wire_->receive(theirs.mutable_data_ptr(), theirs.nbytes(), replica, tag_));
  }
  const torch::Tensor ours = slice_of(wire_->rank());
  for (int replica : replicas_) messages_.push_back(wire_->send(ours.const_data_ptr(), ours.nbytes(), replica, tag_));
}

void ReplicaSums::wait() {
  wire_->wait_all(messages_);
  sum_ = torch::Tensor();
}

}  // namespace fsdp::collectives
