#include "collectives/device/reduction_order.h"

#include <algorithm>
#include <set>

namespace fsdp::collectives::device {

void ReductionOrder::add_one(Counts& counts, int unit) {
  if (unit >= static_cast<int>(counts.size())) counts.resize(unit + 1);
  ++counts[unit];
}

void ReductionOrder::send(int unit, std::vector<int>& sent) {
  add_one(sent_, unit);
  sent_in_order_.push_back(unit);
  sent.push_back(unit);
}

void ReductionOrder::add(int unit) {
  if (std::ranges::find(expected_, unit) != expected_.end()) return;
  expected_.insert(expected_.begin() + static_cast<ptrdiff_t>(next_), unit);
}

std::vector<int> ReductionOrder::begin(int unit) {
  add_one(begun_, unit);
  if (begun_[unit] == 1) first_begun_.push_back(unit);
  return send_expected();
}

std::vector<int> ReductionOrder::send_expected() {
  std::vector<int> sent;
  if (holds_back_) return sent;
  while (next_ < expected_.size() && count_of(begun_, expected_[next_]) > 0) send(expected_[next_++], sent);
  return sent;
}

std::vector<int> ReductionOrder::flush(int unit) {
  std::vector<int> sent;
  for (; next_ < expected_.size(); ++next_) {
    if (count_of(begun_, expected_[next_]) > 0) send(expected_[next_], sent);
  }
  // Backwards come by the units that were registered last first.
  const int last_round = count_of(begun_, unit);
  for (int round = 1; round <= last_round; ++round) {
    for (int other = static_cast<int>(begun_.size()) - 1; other >= 0; --other) {
      if (begun_[other] >= round && count_of(sent_, other) < round) send(other, sent);
    }
  }
  return sent;
}

bool ReductionOrder::surprised() const {
  return surprises_ == 0 ||
         std::set<int>(first_begun_.begin(), first_begun_.end()) != std::set<int>(expected_.begin(), expected_.end());
}

bool ReductionOrder::end(bool everywhere) {
  bool teaches = everywhere && !first_begun_.empty();
  if (teaches && !holds_back_) {
    const bool surprise = surprised();
    surprises_ += surprise;
    teaches = surprise || surprises_ > 1;
  }
  next_ = 0;
  begun_.clear();
  sent_.clear();
  sent_in_order_.clear();
  first_begun_.clear();
  return teaches;
}

}  // namespace fsdp::collectives::device
