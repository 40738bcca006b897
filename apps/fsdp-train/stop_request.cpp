#include "stop_request.h"

namespace trainer {

namespace {

volatile std::sig_atomic_t received = 0;  // all that a signal's handler may touch

struct sigaction noting() {
  struct sigaction action {};
  action.sa_handler = [](int number) { received = number; };
  sigemptyset(&action.sa_mask);
  // Reads and writes of the loop go on; the next signal of the kind means it.
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  return action;
}

}  // namespace

StopRequest::StopRequest() {
  received = 0;
  const struct sigaction action = noting();
  sigaction(SIGINT, &action, &previous_interrupt_);
  sigaction(SIGTERM, &action, &previous_terminate_);
}

StopRequest::~StopRequest() {
  sigaction(SIGINT, &previous_interrupt_, nullptr);
  sigaction(SIGTERM, &previous_terminate_, nullptr);
}

int StopRequest::signal() const { return received; }

}  // namespace trainer
