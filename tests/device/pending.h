// Exchanges between ranks that the host has begun and that no stream has waited for yet. They alone run beside the host
// here, so a wait of the host for the device ends them first.
#pragma once

#include <functional>

namespace fsdp::testing::device {

// `finish` waits for one; it is called once, by finish_pending_work or by the caller itself.
class PendingWork {
 public:
  explicit PendingWork(std::function<void()> finish);
  PendingWork(const PendingWork&) = delete;
  PendingWork& operator=(const PendingWork&) = delete;
  ~PendingWork();
};

void finish_pending_work();

}  // namespace fsdp::testing::device
