// Threads as ranks: a Transport and a status board through shared memory, for tests.
//
// Every rank's thread has a transport of its own over one LocalNetwork. A message is copied when both ends have
// started; `fail` makes a rank unreachable, as a dead process is.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "collectives/status_board.h"
#include "collectives/transport.h"

namespace fsdp::collectives {

class LocalNetwork {
 public:
  explicit LocalNetwork(int size, std::chrono::milliseconds timeout = std::chrono::hours(1))
      : size_(size), timeout_(timeout) {}

  std::unique_ptr<Transport> transport(int rank);
  std::unique_ptr<StatusBoard> board() const;
  void fail(int rank);

 private:
  friend class LocalBoard;
  friend class LocalTransport;
  friend class LocalMessage;

  // One end of a message that waits for the other.
  struct End {
    bool sends;
    int from, to, tag;
    const void* source;
    void* target;
    size_t size;
    bool done = false;
    bool aborted = false;
  };
  struct Statuses {
    std::mutex mutex;
    std::map<int, std::string> of_rank;
  };

  void start(const std::shared_ptr<End>& end);
  void wait(const std::shared_ptr<End>& end, int peer);
  void abort(const std::shared_ptr<End>& end);
  bool is_over(const std::shared_ptr<End>& end);
  void forget(const std::shared_ptr<End>& end);

  int size_;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<std::shared_ptr<End>> waiting_;
  std::set<int> failed_;
  std::shared_ptr<Statuses> statuses_ = std::make_shared<Statuses>();
};

// Runs `body` in a thread for each rank and joins them.
void run_threads(int ranks, const std::function<void(int rank)>& body);

}  // namespace fsdp::collectives
