// The state that a group in shared memory shares with its units: the ranks, their memory, and the first failure.
//
// After a failure the ranks no longer agree on what was exchanged, so every later call throws the first error again;
// the peers are told, and report it as the cause. One thread at a time.
#pragma once

#include <torch/types.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/failure_latch.h"
#include "collectives/backends.h"
#include "collectives/shm/exchange.h"
#include "collectives/shm/own_memory.h"
#include "collectives/shm/peer_memory.h"
#include "collectives/shm/ranks.h"

namespace fsdp::collectives::shm {

class SharedMemoryContext {
 public:
  // Opens the peers' memory; their numbers travel by the store. A collective.
  explicit SharedMemoryContext(const GroupSpec& spec);

  Ranks& ranks() { return *ranks_; }
  Exchange& exchange() { return *exchange_; }
  const std::shared_ptr<OwnMemory>& memory() const { return memory_; }
  RankMemory& memory_of(int rank) const;
  pid_t process_of(int rank) const { return processes_[rank]; }
  // [bytes] of uint8 in this rank's memory, given back with the tensor.
  torch::Tensor allocate(int64_t bytes);
  // The address in this rank's memory at which such a tensor begins.
  uint64_t address_of(const torch::Tensor& tensor) const;

  // Runs `operation`, unless an earlier one failed. `prefix` starts the message and `name` names what was tried.
  template <typename Operation>
  auto guarded(const std::string& prefix, const char* name, Operation&& operation) {
    return latch_.run(operation, [&](const std::exception_ptr& failure) { return explain(prefix + name, failure); });
  }

 private:
  // After a failure: notifies the peers, and returns the caller's error.
  std::exception_ptr explain(const std::string& start, const std::exception_ptr& failure);
  std::exception_ptr explain_wait(const std::string& start, const WaitFailure& failure);

  std::shared_ptr<OwnMemory> memory_;
  std::vector<std::unique_ptr<PeerMemory>> peers_;
  std::vector<pid_t> processes_;
  std::unique_ptr<Ranks> ranks_;
  std::unique_ptr<Exchange> exchange_;
  FailureLatch latch_;
};

}  // namespace fsdp::collectives::shm
