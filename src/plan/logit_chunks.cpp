#include "plan/logit_chunks.h"

#include <algorithm>
#include <limits>

namespace fsdp::plan {

namespace {

constexpr int64_t kEvenColumns = 64;  // products are faster by these
// On a CPU larger chunks make no product faster, and leave less room for the kept ones. On a GPU the room alone bounds
// a chunk: a few long kernels are faster than many short ones. A quarter of the room is for one chunk.
constexpr int64_t kManyColumns = 1024, kLargeChunk = 4 << 20;
constexpr int64_t kChunksInRoom = 4;

int64_t columns_of_chunk(const LogitSizes& sizes) {
  const int64_t bytes_of_column = (sizes.bytes_of_logit + sizes.bytes_beside) * sizes.rows;
  const int64_t enough =
      sizes.on_cpu ? std::max(kManyColumns, kLargeChunk / bytes_of_column) : std::numeric_limits<int64_t>::max();
  const int64_t columns = std::clamp<int64_t>(sizes.room / kChunksInRoom / bytes_of_column, 1, enough);
  return columns < kEvenColumns ? columns : columns / kEvenColumns * kEvenColumns;
}

}  // namespace

LogitChunks logit_chunks(const LogitSizes& sizes) {
  const auto& [rows, vocabulary, own, beside, room, on_cpu] = sizes;
  const int64_t columns = std::min(columns_of_chunk(sizes), vocabulary);
  const int64_t count = (vocabulary + columns - 1) / columns;
  const int64_t fit = (room - beside * rows * columns) / (own * rows * columns);
  return {.columns = columns, .count = count, .kept = count <= fit ? count : std::max<int64_t>(fit - 1, 0)};
}

int64_t kept_logit_columns(const LogitSizes& sizes) {
  const LogitChunks chunks = logit_chunks(sizes);
  return std::min(chunks.kept * chunks.columns, sizes.vocabulary);
}

}  // namespace fsdp::plan
