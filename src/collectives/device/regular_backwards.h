// Detects that this rank's backwards repeat. Then the present gradients are known, and reductions need no message on
// the host.
//
// In each backward a rank notes the order of its reductions, and whether they had other gradients than in the last one.
// Backwards are regular once every rank has repeated one. Where one then does not repeat the last, it takes twice as
// many until they are regular again. After one in which ranks used different units none is regular any more: a rank
// that waits for a reduction without flags relies on its peers to begin it. Every rank has the same answer, as all take
// it from what all said. Pure; not for concurrent use.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace fsdp::collectives::device {

class RegularBackwards {
 public:
  bool regular() const { return regular_; }
  // This rank begins a reduction. `as_before`: of the gradients that it had in the last backward.
  void begin(int unit, bool as_before) {
    order_.push_back(unit);
    as_before_ &= as_before;
  }
  // In this backward ranks use different units. All ranks say so.
  void ranks_differ() { differed_ = true; }
  // At the end, before the ranks reduce what is left: whether this backward was as the last one.
  bool as_before() {
    said_ = order_;
    return as_before_ && said_ == last_;
  }
  // The backward is over: all of it on all ranks, each of which said whether it was as the last, or given up.
  void end(bool everywhere, bool all_as_before) {
    as_before_ = true;
    if (std::exchange(order_, {}).empty() && everywhere) return;
    last_ = std::exchange(said_, {});
    if (!all_as_before && regular_) needed_ = std::min(2 * needed_, kMost);
    repeated_ = all_as_before ? repeated_ + 1 : 0;
    regular_ = everywhere && !differed_ && repeated_ >= needed_;
    if (!everywhere) repeated_ = 0;
  }

 private:
  static constexpr int kMost = 1 << 20;

  bool regular_ = false, as_before_ = true, differed_ = false;
  int repeated_ = 0;  // backwards in a row, on all ranks
  int needed_ = 1;
  std::vector<int> order_, said_, last_;  // of this rank's reductions
};

}  // namespace fsdp::collectives::device
