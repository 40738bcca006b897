// In which order the reductions of a backward go out where all ranks have to send them in the same one, as NCCL wants
// it.
//
// Ranks begin their reductions in nearly the same order: one that lacks a gradient begins that unit later. So each
// sends them in the expected order, and holds back the early ones. A unit that the backward does not reduce delays
// those behind it until the end of the backward. By then every rank has begun the same ones, and sends the rest. A unit
// that is reduced again in one backward goes then too.
//
// Before the first backward the expected order is that in which the units were registered, backwards. From then on it
// is the order in which rank 0 began its reductions in the last backward that taught it: the first, and one after a
// surprise. The group gives it to all ranks at the end of that backward (expect). Models that surprise again teach in
// every backward. While ranks use different units, all reductions are held back until the end. Pure; not for concurrent
// use.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace fsdp::collectives::device {

class ReductionOrder {
 public:
  // A unit is registered, the same on every rank. A new one of a known number takes the place of that.
  void add(int unit);
  // This rank has begun a reduction of `unit`. The units whose reductions go out now, in order.
  std::vector<int> begin(int unit);
  // From now on ranks use different units, or no more. All ranks say the same.
  void hold_back(bool all) { holds_back_ = all; }
  // To be sent once a reduction that was held back is waited for: it, and all others that are to be sent before it.
  // This rank has begun every reduction that any rank begins in the same round: the first of each unit, then the second
  // of each that has one.
  std::vector<int> flush(int unit);
  bool held_back(int unit) const { return count_of(sent_, unit) < count_of(begun_, unit); }
  // The units as this rank began them in this backward. As many on every rank, at the end.
  const std::vector<int>& begun_in_order() const { return first_begun_; }
  // The units whose reductions have gone out in this backward, in order.
  const std::vector<int>& sent_in_order() const { return sent_in_order_; }

  // The backward is over: all of it on all ranks, or, not `everywhere`, given up on this one. True if it teaches the
  // order: then `expect` follows. Every rank has the same answer.
  bool end(bool everywhere);
  // The order to expect from now on: one for all ranks.
  void expect(std::vector<int> units) { expected_ = std::move(units); }

 private:
  using Counts = std::vector<int>;  // by unit

  static int count_of(const Counts& counts, int unit) {
    return unit < static_cast<int>(counts.size()) ? counts[unit] : 0;
  }
  static void add_one(Counts& counts, int unit);
  void send(int unit, std::vector<int>& sent);
  std::vector<int> send_expected();
  bool surprised() const;

  bool holds_back_ = false;
  int surprises_ = 0;  // the first backward is one
  std::vector<int> expected_;
  size_t next_ = 0;  // of those
  Counts begun_, sent_;
  std::vector<int> first_begun_, sent_in_order_;
};

}  // namespace fsdp::collectives::device
