// Reads the parts of files that a rank loads, in several threads. So a disk that serves several requests at once is
// used fully, and hashing takes no extra time.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/shard_file.h"

namespace fsdp::checkpoint {

struct PieceRead {
  const ShardFile* file;
  const ShardFile::Entry* entry;
  int64_t begin, bytes;  // of the entry's
  char* into;            // null: the bytes are compared with their hashes, and not kept
};

// Reads and checks all of them, in the order of the files' bytes. Returns what is damaged or cannot be read, one text
// for each part; none: nothing is.
std::vector<std::string> read_and_check(const std::vector<PieceRead>& reads);

}  // namespace fsdp::checkpoint
