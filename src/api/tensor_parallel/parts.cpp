#include "api/tensor_parallel/parts.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace fsdp {

namespace {

// Numbers of parts that the features and the axis allow.
std::vector<int64_t> possible_parts(int64_t features, int64_t ranks) {
  std::vector<int64_t> found;
  for (int64_t parts = ranks; parts <= features && found.size() < 8; parts += ranks)
    if (features % parts == 0) found.push_back(parts);
  return found;
}

std::string remedy_for(int64_t features, int64_t parts, int64_t ranks) {
  const std::vector<int64_t> found = possible_parts(features, ranks);
  const int64_t next = (features / parts + 1) * parts;
  if (found.empty()) return fmt::format("Use {} features, or another number of ranks.", next);
  return fmt::format("Use {} parts, or {} features.", fmt::join(found, ", "), next);
}

}  // namespace

AxisParts parts_of(const char* caller, const World& axis, int parts) {
  const int ranks = axis.size(), total = parts == 0 ? ranks : parts;
  FSDP_CHECK(total > 0 && total % ranks == 0,
             "{}: found {} parts on an axis of {} ranks, expected a multiple of {}. Use {} parts.", caller, parts,
             ranks, ranks, std::max(1, (parts + ranks - 1) / ranks) * ranks);
  return {.total = total, .first = axis.rank() * (total / ranks), .count = total / ranks};
}

layout::Range range_of_part(int64_t size, int total, int part) {
  const auto begin_of = [&](int64_t number) { return size / total * number + std::min(number, size % total); };
  return {begin_of(part), begin_of(part + 1)};
}

layout::Range range_of_rank(int64_t size, const AxisParts& parts) {
  return {range_of_part(size, parts.total, parts.first).begin,
          range_of_part(size, parts.total, parts.first + parts.count - 1).end};
}

void check_divides(const char* caller, const char* name, int64_t features, const AxisParts& parts, const World& axis) {
  FSDP_CHECK(features > 0 && features % parts.total == 0, "{}: found {} {} and {} parts, expected a multiple of {}. {}",
             caller, features, name, parts.total, parts.total, remedy_for(features, parts.total, axis.size()));
}

void check_sequence(const char* caller, const torch::Tensor& tensor, int parts) {
  FSDP_CHECK(tensor.dim() >= 2 && tensor.size(1) % parts == 0,
             "{}: found a tensor of shape [{}] to divide into {} slices of the sequence, expected [batch, sequence, "
             "...] with a sequence that is a multiple of {}. Pad the sequence.",
             caller, fmt::join(tensor.sizes(), ", "), parts, parts);
}

}  // namespace fsdp
