// A rank's message to its peers when it enters a round in a step. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "schedule/unit_counts.h"

namespace fsdp::schedule {

// The reason for which a rank enters a round.
enum class RankActivity : int64_t {
  Gathers,       // it gathers a unit outside of a plan
  Waits,         // it waits for a unit that a peer does not gather
  Writes,        // an operator has written a unit
  EndsBackward,  // it has ended its backward
  Follows,       // it has no batch, and follows the others
};

struct RankReport {
  RankActivity activity;
  UnitId unit = -1;            // of Gathers, Waits and Writes
  std::string operation = {};  // the operator that needs or wrote the unit; at most 48 bytes of its name are sent
  UnitCounts counts = {};
  int64_t changes = 0;                // of the shards, so far
  int64_t gathers = 0;                // begun by the plan since the last round
  int64_t plans = 0;                  // hash of the coming plans
  bool reductions_as_before = false;  // they repeated the last backward
  int64_t written = 0;                // hash of the values that the operator wrote
  bool changed = false;               // the operator changed a value

  bool has_batch() const { return activity != RankActivity::Follows; }
  bool operator==(const RankReport&) const = default;
};

// "gathers unit layers.0 outside of a plan, for aten::mm". `units`: the names of the units.
std::string describe(const RankReport& report, std::span<const std::string> units);

// As words of a message. Its length depends on the number of units alone, so that ranks which went different ways still
// understand each other.
size_t words_of_report(size_t units);
void pack(const RankReport& report, std::span<int64_t> words);
RankReport unpack_report(std::span<const int64_t> words);

// A hash, for example of a plan.
int64_t hash_of(std::span<const int> numbers);

}  // namespace fsdp::schedule
