// The chunks of fsdp::linear_cross_entropy: how many columns of the logits are made at a time, and how many chunks a
// forward keeps for its backward. Pure: the loss and the plan use the same arithmetic.
#pragma once

#include <cstdint>

namespace fsdp::plan {

// The sizes that the division into chunks depends on.
struct LogitSizes {
  int64_t rows = 1;            // targets
  int64_t vocabulary = 1;      // entries on this rank
  int64_t bytes_of_logit = 4;  // 2 in bf16 and fp16
  int64_t bytes_beside = 0;    // per logit, that a pass takes beside the chunk
  int64_t room = 0;            // bytes of logits at a time: LinearCrossEntropyOptions::chunk_bytes or gpu_chunk_bytes
  bool on_cpu = true;
};

struct LogitChunks {
  int64_t columns = 0;  // of a chunk; the last one may have less
  int64_t count = 0;    // of chunks
  int64_t kept = 0;     // of these, for the backward
};

LogitChunks logit_chunks(const LogitSizes& sizes);

// Columns of the chunks that are kept.
int64_t kept_logit_columns(const LogitSizes& sizes);

}  // namespace fsdp::plan
