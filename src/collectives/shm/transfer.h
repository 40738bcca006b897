// One end of a message, and how a message is described to the other end. Plain data.
#pragma once

#include <atomic>
#include <cstdint>

namespace fsdp::collectives::shm {

struct Frame {
  static constexpr uint64_t kNoOperation = 0;
  static constexpr int32_t kNoLoan = -1;
  enum class Bytes : int32_t { Follow, AreLent };

  uint64_t operation = kNoOperation;
  uint64_t size = 0;  // of the bytes
  int64_t tag = 0;
  int32_t loan = kNoLoan;  // if the bytes follow: one that the receiver has refused
  Bytes bytes = Bytes::Follow;
  uint64_t begin = 0;  // the bytes before it do not follow: the receiver has read them

  bool is_before(uint64_t now) const { return operation != kNoOperation && operation < now; }
};

// The caller's, who leaves it where it is until it is done or given up.
struct Transfer {
  Frame frame = {};
  const char* from = nullptr;  // of a message that is sent; null: its bytes may have any value
  char* to = nullptr;          // of one that is received; null: its bytes are dropped
  bool may_be_lent = false;    // of one that is sent
  bool is_awaited = false;     // by a sender that does nothing else
  std::atomic<bool> aborted = false;
  bool done = false;
};

}  // namespace fsdp::collectives::shm
