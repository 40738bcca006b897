// Threads as ranks that share memory: every rank sees the same addresses, so that a thread sanitizer sees what they do.
#pragma once

#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/shm/own_memory.h"
#include "collectives/shm/ranks.h"

namespace fsdp::collectives::shm {

class ThreadRanks {
 public:
  explicit ThreadRanks(int size, std::chrono::milliseconds timeout = std::chrono::hours(1)) : timeout_(timeout) {
    for (int rank = 0; rank < size; ++rank) memories_.push_back(std::make_unique<OwnMemory>());
  }

  int size() const { return static_cast<int>(memories_.size()); }
  OwnMemory& memory(int rank) { return *memories_[rank]; }
  // One of the ranks, on the calling thread.
  std::unique_ptr<Ranks> join(int rank) {
    std::vector<Member> members;
    for (int each = 0; each < size(); ++each) members.push_back({&memory(each).control(), getpid(), each});
    return std::make_unique<Ranks>(rank, std::move(members), timeout_);
  }

  // Runs `body` as each rank.
  void run(const std::function<void(Ranks&)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      threads.emplace_back([&, rank] {
        const std::unique_ptr<Ranks> ranks = join(rank);
        body(*ranks);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::chrono::milliseconds timeout_;
  std::vector<std::unique_ptr<OwnMemory>> memories_;
};

// Loses a random time: usually none, sometimes so much that the peers fall asleep.
inline void delay(std::mt19937& random) {
  const auto drawn = random() % 64;
  if (drawn < 16) std::this_thread::yield();
  if (drawn == 16) std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
}

}  // namespace fsdp::collectives::shm
