// The calls that ranks make of their worlds (include/fsdp/world.h), as the other groups of these ranks see them.
//
// All ranks of a world make its calls in one order, and no call ends before all ranks have begun it. So a rank in call
// 5 of a world waits for each rank that has begun 4 of them. Where such a rank waits for the first one in another
// group, neither can go on.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace fsdp::collectives {

// A call that a rank is in.
struct WorldCall {
  uint64_t world = 0;        // a number that its ranks have in common
  uint64_t number = 0;       // of the call in its world; the first is 1
  std::string purpose = {};  // in words that follow "rank 1 "
};

// The calls that this rank has begun. Any thread.
class WorldCalls {
 public:
  // This rank is one of that world's.
  void open(uint64_t world);
  // Returns the call's number.
  uint64_t begin(uint64_t world);
  // Returns whether a rank that is in `call` waits for this one.
  bool is_awaited_by(const WorldCall& call) const;
  // The program's function has thrown: this rank does not end as it should.
  void note_exception() { has_thrown_ = true; }
  bool has_thrown() const { return has_thrown_; }

 private:
  std::atomic<bool> has_thrown_ = false;
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> begun_;  // by world
};

}  // namespace fsdp::collectives
