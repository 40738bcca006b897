// Holds whether ranks can rely on plans. After ranks used different units, they cannot for a number of backwards.
//
// In that many backwards in a row the ranks must use the same units. The number doubles each time that they differ, so
// models whose ranks differ now and then, such as mixtures of experts, seldom have to leave a plan. All ranks make the
// calls at the same points, so every rank has the same answer. Pure; not for concurrent use.
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
  int alike_ = 0;      // backwards in a row in which ranks used the same units
  int backwards_ = 2;  // number of such backwards that is needed; doubled before its first use
};

}  // namespace fsdp::schedule
