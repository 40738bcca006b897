// Progress of the work that the ranks of a host need of each other, while one of them waits for another host.
//
// A rank gives its gathers their buffers when the peers have released them and it comes by, and a peer may need that
// before it can do what the rank is waiting for. In shared memory a wait sees to it itself (shm/ranks.h); during a wait
// for messages a thread of this class does. It is started when it is first needed, and asleep otherwise.
// The calls come from one thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "collectives/shm/ranks.h"

namespace fsdp::collectives::hosts {

class Progress {
 public:
  explicit Progress(shm::Ranks& ranks) : ranks_(&ranks) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // While it lives, the caller leaves the ranks alone.
  class Scope {
   public:
    explicit Scope(Progress& progress) : progress_(progress) { progress_.begin(); }
    ~Scope() { progress_.end(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Progress& progress_;
  };

 private:
  void begin();
  void end() noexcept;
  void run();

  shm::Ranks* ranks_;
  std::mutex mutex_;  // its holder may touch the ranks
  std::condition_variable changed_;
  bool going_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace fsdp::collectives::hosts
