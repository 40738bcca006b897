// Rank 0's words to the other ranks about the order in which it begins its reductions, over a group on the CPU.
//
// A word is a unit's number. It travels as a reduction without elements, whose flags are the number's bits: rank 0
// begins one for each word, the other ranks begin all of them as soon as they listen. So a word waits for no rank but
// rank 0, and for none of the group's other collectives. One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/group.h"

namespace fsdp::collectives::device {

class OrderWords {
 public:
  explicit OrderWords(Group& host);

  // Room for one more word. `id` is unique in the group on the CPU. A collective.
  void open(int id);
  // By rank 0.
  void say(int unit);
  // By rank 0, once: there is no more in this backward.
  void say_no_more() { begin_rest(); }
  // By another rank, of what comes until then: the next word, or -1.
  int hear_last();
  // By another rank: the next word. None where rank 0 does not say it before this rank goes on.
  std::optional<int> hear();
  // No more words for now. A collective where any rank has said or heard one.
  void end();

 private:
  struct Slot {
    std::unique_ptr<UnitCollectives> unit;
    GradientSum bits;
    bool begun = false;
  };

  void begin(Slot& slot, int number);
  int finish(Slot& slot);
  void begin_rest();
  void begin_anew();

  Group& host_;
  const layout::UnitLayout layout_;
  const layout::GradientLayout gradient_layout_;
  std::vector<Slot> slots_;
  size_t next_ = 0;
};

}  // namespace fsdp::collectives::device
