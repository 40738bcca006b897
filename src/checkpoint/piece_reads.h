// Reads the parts of files that a rank loads, in several threads. So a disk that serves several requests at once is
// used fully, and hashing takes no extra time. Each hashed block is read once, however many runs of bytes it has.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/shard_file.h"

namespace fsdp::checkpoint {

struct PieceRead {
  const ShardFile* file;
  const ShardFile::Entry* entry;
  ShardFile::Wanted bytes;  // of the entry's
};

// Reads and checks all of them, in the order of the files' bytes. Returns what is damaged or cannot be read, one text
// for each part; none: nothing is.
std::vector<std::string> read_and_check(const std::vector<PieceRead>& reads);

}  // namespace fsdp::checkpoint
