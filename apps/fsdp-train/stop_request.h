// SIGINT and SIGTERM as a wish that the training loop obeys after a step, when its state can be saved.
#pragma once

#include <csignal>

namespace trainer {

// While it lives, the first such signal is noted; one that comes more than a second later ends
// the process as ever. One at a time.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // The signal that came, 0 for none.
  int signal() const;

 private:
  struct sigaction previous_interrupt_ {
  }, previous_terminate_{};
};

}  // namespace trainer
