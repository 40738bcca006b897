// The memory of a profile: the rank that holds most, its peak, and its course.
#pragma once

#include <string>
#include <vector>

#include "report/profile.h"

namespace trainer {

struct MemoryPeak {
  size_t rank = 0;
  TraceMemory memory = {};  // at the peak; no parts: there is none
  int64_t bytes = 0;
};

// Returns the peak of one rank.
MemoryPeak peak_of_rank(const Profile& profile, size_t rank);
// Returns the highest peak of all ranks.
MemoryPeak highest_peak(const Profile& profile);
// Without the state in files.
TraceMemory without_files(TraceMemory memory);
// Bytes of a part; 0: there is none of that name.
int64_t part_bytes(const TraceMemory& memory, const std::string& part);

// When the peak was, and what takes most of it. Text.
std::string peak_sentences(const Profile& profile, const MemoryPeak& peak);

// The memory of the peak's rank over time, for memory.js: {"runs": [{"name", "step", "milliseconds", "memory":
// [{"name", "colour", "bytes"}], ...}]}. At most 1000 values of each part; the highest sum is among
// them.
std::string memory_course_json(const Profile& profile, const MemoryPeak& peak);

}  // namespace trainer
