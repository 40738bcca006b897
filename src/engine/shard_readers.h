// Reads of the shards, and of the optimizers' state, that go on beside the program, as a save's do. Writers of these
// wait for the reads.
//
// Owned by the model's parts; a reading may outlive them. Any thread.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace fsdp::engine {

class ShardReaders {
  struct Shared {
    std::mutex mutex;
    std::condition_variable ended;
  };

 public:
  class Reading {
   public:
    explicit Reading(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
    // Nothing is read any more. May be called again.
    void end();
    // Seconds that changes have waited for it.
    double seconds_waited_for() const;

   private:
    friend class ShardReaders;
    std::shared_ptr<Shared> shared_;
    bool is_over_ = false;
    double seconds_waited_for_ = 0;
  };

  // The caller ends it, whatever happens: changes wait for ever otherwise.
  std::shared_ptr<Reading> begin();
  bool any() const;
  // Returns when no reading goes on.
  void wait();

 private:
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::vector<std::shared_ptr<Reading>> readings_;  // since the last wait
};

}  // namespace fsdp::engine
