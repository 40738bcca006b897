// The state that a group over several hosts shares with its units: its two levels, which are this host's ranks, in
// shared memory, and all ranks, over a wire.
//
// Every host has as many ranks, numbered one host's after another's. Ranks with the same number on their hosts are
// counterparts: what the hosts tell each other goes between them, so that it crosses the network once and not once
// per rank. A failure on one level poisons both, so that those who wait on the other hear of it.
// One thread at a time. The units may outlive the group.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/backends.h"
#include "collectives/hosts/host_buffers.h"
#include "collectives/hosts/progress.h"
#include "collectives/hosts/task_threads.h"
#include "collectives/hosts/transfer_queue.h"
#include "collectives/shm/context.h"
#include "collectives/wire.h"

namespace fsdp::collectives::hosts {

class HostsContext {
 public:
  // A collective, as the making of the wire, which connects the ranks of all hosts.
  HostsContext(const GroupSpec& spec, std::shared_ptr<Wire> wire);

  int rank() const { return wire_->rank(); }
  int size() const { return wire_->size(); }
  int ranks_of_a_host() const { return ranks_of_a_host_; }
  int hosts() const { return size() / ranks_of_a_host_; }
  int host() const { return rank() / ranks_of_a_host_; }
  int number_on_host() const { return rank() % ranks_of_a_host_; }
  int rank_on(int host, int number) const { return host * ranks_of_a_host_ + number; }
  int counterpart(int host) const { return rank_on(host, number_on_host()); }
  // On the other hosts, within this rank's shard group: whose shards this rank fetches for its host.
  std::vector<int> counterparts_in_group(const layout::UnitLayout& layout) const;

  const std::shared_ptr<Wire>& wire() const { return wire_; }
  shm::SharedMemoryContext& shared() { return shared_; }
  shm::Ranks& ranks() { return shared_.ranks(); }  // of this host
  TaskThreads& threads() { return threads_; }
  // Makes this host's buffers for full units, unless there are some. A collective of the host.
  void open_buffers() {
    if (!buffers_) buffers_.emplace(shared_);
  }
  HostBuffers& buffers() { return *buffers_; }
  int64_t buffer_bytes() const { return buffers_ ? buffers_->bytes() : 0; }
  Progress& progress() { return progress_; }
  TransferQueue& transfers() { return transfers_; }

  // Runs what exchanges messages, unless something failed before. `prefix` starts the message and `name` says what was
  // tried.
  template <typename Operation>
  auto on_wire(const std::string& prefix, const char* name, Operation&& operation) {
    return shared_.guarded(prefix, name, [&] { return wire_->guarded(prefix, name, operation); });
  }
  // As `on_wire`, for an operation that waits for the ranks of this host; the ranks of the other hosts see that it
  // does.
  template <typename Operation>
  auto in_memory(const std::string& prefix, const char* name, Operation&& operation) {
    return wire_->guarded(prefix, name, [&] {
      return shared_.guarded(prefix, name, [&] {
        const Wire::WaitScope waiting(*wire_);
        return operation();
      });
    });
  }
  // Runs an operation of the whole group over the wire, while what this host's ranks need goes on.
  template <typename Operation>
  auto for_all(const char* name, Operation&& operation) {
    return shared_.guarded(message_prefix(), name, [&] {
      const Progress::Scope going_on(progress_);
      return operation();
    });
  }
  // As `Wire::wait_all`, while what this host's ranks need goes on.
  void wait_all(Messages& messages) {
    const Progress::Scope going_on(progress_);
    wire_->wait_all(messages);
  }

 private:
  int ranks_of_a_host_;
  shm::SharedMemoryContext shared_;
  std::shared_ptr<Wire> wire_;
  Progress progress_;
  TransferQueue transfers_;
  TaskThreads threads_;
  std::optional<HostBuffers> buffers_;
};

}  // namespace fsdp::collectives::hosts
