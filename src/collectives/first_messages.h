// The first messages of an operation of the whole group: bytes that some ranks have for all others, and the facts of
// the call.
//
// Facts travel in messages of one length, so ranks whose calls differ receive each other's. A few bytes are sent within
// them. More bytes go in a second message, which is begun at the same time. If the facts differ, second messages may
// not match. Each rank then completes the messages of its peers, which it knows from the facts. So no message is
// left that a later one would match.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/call_facts.h"
#include "collectives/transport.h"

namespace fsdp::collectives {

inline constexpr int kNoRank = -1, kEveryRank = -2;

// Bytes of some ranks, as many of each, for all other ranks.
struct SharedBytes {
  int sender = kNoRank;  // or one rank, or kEveryRank
  size_t bytes = 0;      // together with facts at most kExactLengths (tags.h)
  int tag = 0;           // with facts: share_tag(bytes)
  const void* own = nullptr;
  std::vector<void*> into = {};  // by rank; not read for this one

  bool comes_from(int rank) const { return sender == kEveryRank || sender == rank; }
};

void share(Transport& transport, const SharedBytes& shared);
// As above, and compares the facts. If they differ, the bytes in `into` may have any value.
void share_with_facts(Transport& transport, const SharedBytes& shared, CallFacts& facts);

}  // namespace fsdp::collectives
