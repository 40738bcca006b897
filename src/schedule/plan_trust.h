// Whether plans can be relied on: not after ranks used different units, until they have used the same ones for a while.
//
// Each time that they differ again the while is twice as long, so that models whose ranks differ now and then, as
// mixtures of experts, do not run into it again and again. The calls come at points that all ranks have in common, so
// every rank has the same answer. Pure; not for concurrent use.
#pragma once

#include <algorithm>

namespace fsdp::schedule {

class PlanTrust {
 public:
  bool trusted() const { return trusted_; }
  void ranks_differ() {
    differed_ = true;
    trusted_ = false;
  }
  // All ranks have ended a backward.
  void backward_ends() {
    if (trusted_) return;
    if (differed_) {
      backwards_ = std::min(2 * backwards_, kMostBackwards);
      alike_ = 0;
    } else {
      ++alike_;
    }
    trusted_ = alike_ >= backwards_;
    differed_ = false;
  }

 private:
  static constexpr int kMostBackwards = 1 << 20;

  bool trusted_ = true, differed_ = false;
  int alike_ = 0;      // backwards in a row in which ranks did the same
  int backwards_ = 2;  // as many are needed
};

}  // namespace fsdp::schedule
