#include "checkpoint/saved_ranges.h"

#include "base/error.h"
#include "checkpoint/manifest_parts.h"

namespace fsdp::checkpoint {

std::vector<SavedRange> saved_ranges(const std::vector<Manifest::Part>& parts, const layout::Placement& wanted,
                                     int64_t numel_each) {
  std::vector<SavedRange> ranges;
  if (wanted.numel() == 0) return ranges;
  const std::map<int, int64_t> wholes = numel_by_file(parts);
  int64_t found = 0;
  const auto in_blocks = [numel_each](int64_t element) {
    FSDP_CHECK(element % numel_each == 0,
               "a saved part and this rank's begin to agree at element {}, expected a multiple of {}: blocks of 8-bit "
               "state are loaded whole. Load with another state_dtype.",
               element, numel_each);
    return element / numel_each;
  };
  for (const Manifest::Part& part : parts) {
    for (const layout::CommonRuns& runs : layout::common_runs(part.placement, wanted)) {
      ranges.push_back({.file = part.file,
                        .first = in_blocks(part.offset + runs.a),
                        .numel = blocks_of(runs.numel, numel_each),
                        .at = in_blocks(runs.b),
                        .whole = blocks_of(wholes.at(part.file), numel_each),
                        .count = runs.count,
                        .step = in_blocks(runs.step_a),
                        .step_at = in_blocks(runs.step_b)});
      found += runs.numel * runs.count;
    }
  }
  FSDP_CHECK(found == wanted.numel(), "the manifest is damaged: its parts have {} of the {} elements from {} to {}",
             found, wanted.numel(), wanted.range.begin, wanted.range.end);
  return ranges;
}

int64_t blocks_of(int64_t numel, int64_t numel_each) { return (numel + numel_each - 1) / numel_each; }

}  // namespace fsdp::checkpoint
