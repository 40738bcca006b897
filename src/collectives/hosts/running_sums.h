// The sums of one reduction on their way through the hosts, as one rank sees them.
//
// The rank works for its counterparts, the ranks with its number on the other hosts, and for itself: of each it has a
// slice. A slice's sum begins with the owner's sum and passes through the hosts in their order. Each host adds its
// ranks' gradients in order. It ends with the owner; so it is the sum in rank order. It goes in pieces, so that all
// hosts work at once. A slice's owner has the sum in place; for the others it lies in staging.
//
// A host waits for none but those before it, and so the reductions of several units may go on in any order.
// Set up by the rank's own thread, and then used by the task that runs the reduction.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/group.h"
#include "collectives/hosts/background_task.h"
#include "collectives/hosts/context.h"
#include "collectives/ordered_sum.h"
#include "collectives/shm/host_gradients.h"

namespace fsdp::collectives::hosts {

// The flag of a parameter, a byte that ranks tell each other when they begin a reduction: Presence, and whether the sum
// of the slice that the rank adds up holds gradients of it already.
inline constexpr uint8_t kHeld = 4;
inline Presence presence_in(uint8_t flag) { return static_cast<Presence>(flag & ~kHeld); }

class RunningSums {
 public:
  // `flags`: of each rank, in which it tells the above; `host_gradients` are what the ranks of this host offer, this
  // one `gradients`. All outlive this.
  RunningSums(HostsContext& context, int unit, const shm::HostGradients& host_gradients, const Gradients& gradients,
              const std::vector<std::vector<uint8_t>>& flags, torch::Tensor& sum);

  // In elements of `type`.
  static int64_t staging_numel(const HostsContext& context, const layout::GradientLayout& layout, ElementType type);

  // Sends the first host what this rank's sum holds, where it holds something. Before the task.
  void send_held();
  // For the task, once the flags of all ranks are here: waits for each piece, adds to it and passes it on.
  void run(BackgroundTask& task);
  // For the task, after that: returns when this rank's own sum is here and everything sent has arrived.
  void end(BackgroundTask& task);

 private:
  // One owner's slice, as it passes through this host.
  struct Slice {
    int owner = 0;
    int64_t numel = 0;
    float* sum = nullptr;
    shm::OfferedSlice offered;       // by this host's ranks
    std::vector<uint8_t> held;       // what the sum holds when it comes
    bool starts_with_owner = false;  // which sends what it holds to the first host
  };
  struct Piece {
    Slice* slice;
    layout::Range range;
    std::unique_ptr<Message> arrival;  // none where it is here
  };

  Slice slice_of(int host, float*& staging);
  bool holds_any(int rank) const;
  std::vector<uint8_t> held_before_this_host(int owner) const;
  std::unique_ptr<Message> receive(const Slice& slice, layout::Range range, int from);
  void receive_pieces();
  void receive_own_sum();
  void add(const Piece& piece);
  void pass_on(const Piece& piece);
  bool is_last() const { return context_->host() == context_->hosts() - 1; }
  int tag() const;

  HostsContext* context_;
  int unit_;
  const shm::HostGradients* host_gradients_;
  const Gradients* gradients_;
  const std::vector<std::vector<uint8_t>>* flags_;
  float* own_sum_;
  // Messages after what they move.
  std::vector<Slice> slices_;  // by the owners' hosts
  std::vector<Piece> pieces_;  // in the order in which they pass
  Messages own_sum_arrivals_;
  Messages sends_;
};

}  // namespace fsdp::collectives::hosts
