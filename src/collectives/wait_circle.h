// Waits of several ranks, in several groups, that form a circle: each awaited rank waits itself, in a group that the
// waiting rank may not be part of.
//
// A wait ends only after every awaited rank has come, and a rank comes with the thread that uses the group there. If
// that thread waits in another group, the first wait depends on the second one. Waits in a circle that all last at one
// moment last for ever. A rank that computes is in no wait, and so in no circle. Waits that can end in another way, as
// those for a message between two ranks, are not written down. Pure values.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::collectives {

// Ranks are numbered as messages name them. Groups and threads have numbers of their own; a thread's is its rank's.
struct ThreadWait {
  uint64_t thread = 0;
  uint64_t number = 0;  // of this wait on its rank
  uint64_t group = 0;
  std::string doing = {};  // in words that follow "rank 1 "
  // In a call of a world, its number there; the first is 1. All ranks that have begun fewer calls are awaited.
  uint64_t call = 0;
  std::vector<int> awaited = {};  // in a call: perhaps
  uint64_t looks = 0;             // how often it was seen to go on
};

struct GroupUse {
  uint64_t group = 0;
  uint64_t calls = 0;   // of a world that were begun
  uint64_t thread = 0;  // which used it last
};

// The waits of a rank, as all other ranks see them.
struct RankWaits {
  std::vector<ThreadWait> waits = {};  // at most one of each thread
  std::vector<GroupUse> groups = {};
  uint64_t circle = 0;  // the name of a circle that this rank has found; 0: none
};

std::string encode_waits(const RankWaits& waits);
// None for a text that `encode_waits` cannot have written.
std::optional<RankWaits> decode_waits(const std::string& text);

struct WaitInCircle {
  int rank = 0;
  ThreadWait wait = {};
};
using WaitCircle = std::vector<WaitInCircle>;  // each depends on the next one, and the last on the first

// Returns whether the rank that shows `theirs` has begun the call that `wait` is in.
bool has_come(const ThreadWait& wait, const RankWaits& theirs);

// Null: the rank shows nothing. The same until the search is over.
using WaitsOf = std::function<const RankWaits*(int rank)>;
// The shortest circle with this wait of `rank`, beginning at its lowest rank; empty: there is none.
WaitCircle find_circle(int rank, const ThreadWait& wait, const WaitsOf& waits_of);

// "rank 0 ... and waits for rank 2, which ...", and the remedy: the same on each of its ranks.
std::string circle_text(const WaitCircle& circle);

// Tells whether the waits of a circle lasted at one moment. One reading does not show it, as the ranks write and are
// read one after the other.
class CircleWatch {
 public:
  // So many readings, of which each finds later looks of all waits than the one before. They last for about 2 s.
  static constexpr int kReadings = 5;

  // The circle of the present reading; empty: none. Returns true if it is certain.
  bool is_certain(const WaitCircle& circle);

 private:
  WaitCircle last_;
  int readings_ = 0;
};

}  // namespace fsdp::collectives
