#include "stop_request.h"

#include <time.h>

namespace trainer {

namespace {

// All that a signal's handler may touch.
volatile std::sig_atomic_t received = 0;
timespec received_at;

double seconds_since(const timespec& then) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);  // one of the calls that a handler may make
  return static_cast<double>(now.tv_sec - then.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec - then.tv_nsec);
}

// Who asks a whole group of processes asks a rank twice, at once: by itself, and through its launcher, which sends
// SIGTERM for Ctrl-C too; which of them is handled first is open. What comes later means it.
void note(int number) {
  constexpr double kSameRequest = 1;  // seconds
  if (received == 0) {
    clock_gettime(CLOCK_MONOTONIC, &received_at);
    received = number;
  } else if (seconds_since(received_at) > kSameRequest) {
    std::signal(number, SIG_DFL);
    std::raise(number);
  } else if (number == SIGINT) {
    received = number;
  }
}

struct sigaction noting() {
  struct sigaction action {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // reads and writes of the loop go on
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
