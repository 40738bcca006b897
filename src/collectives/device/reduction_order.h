// In which order the reductions of a backward go out where all ranks have to send them in the same one, as NCCL wants
// it: from what each rank knows by itself, without a word.
//
// Ranks begin their reductions in nearly the same order: one that lacks a gradient begins that unit later. So each
// sends them in the order that is expected, and holds back what comes too early; a unit that the backward does not
// reduce holds up those behind it until the end of the backward, when every rank has begun the same ones and sends the
// rest. A unit that is reduced again in one backward goes then too. Pure; not for concurrent use.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace fsdp::collectives::device {

class ReductionOrder {
 public:
  // This rank has begun a reduction of `unit`. The units whose reductions go out now, in order.
  std::vector<int> begin(int unit);
  // To be sent once a reduction that was held back is waited for: it, and all others that are to be sent before it.
  // This rank has begun every reduction that any rank begins in the same round: the first of each unit, then the second
  // of each that has one.
  std::vector<int> flush(int unit);
  bool held_back(int unit) const { return count_of(sent_, unit) < count_of(begun_, unit); }

  // Whether this backward reduced other units than were expected: the same answer on every rank at the end of it.
  bool surprised() const;
  // The units as this rank began them. As many on every rank, at the end.
  const std::vector<int>& begun_in_order() const { return first_begun_; }
  // The order to expect from now on: one for all ranks.
  void expect(std::vector<int> units) { expected_ = std::move(units); }
  // The backward is over.
  void end();

 private:
  using Counts = std::vector<int>;  // by unit

  static int count_of(const Counts& counts, int unit) {
    return unit < static_cast<int>(counts.size()) ? counts[unit] : 0;
  }
  static void add_one(Counts& counts, int unit);
  void send(int unit, std::vector<int>& sent);

  std::vector<int> expected_;
  size_t next_ = 0;  // of those
  Counts begun_, sent_;
  std::vector<int> first_begun_;
};

}  // namespace fsdp::collectives::device
