// SIGINT, SIGTERM, SIGUSR1, SIGHUP and SIGPIPE request a stop. The training loop stops after a step, when its state can
// be saved. A request comes from a user or a batch system, from a closed terminal, or from output without a reader.
#pragma once

#include <array>
#include <csignal>

namespace trainer {

// From the start of the program: SIGUSR1 does not end it. One that comes is kept for `end_when_asked`, or the first
// StopRequest. Makes system calls only.
void expect_notice();
// While it lives, SIGUSR1 waits, as does one that came before: for the same process when it has executed another
// program, or for its end.
class HeldNotice {
 public:
  HeldNotice();
  ~HeldNotice();
  HeldNotice(const HeldNotice&) = delete;
  HeldNotice& operator=(const HeldNotice&) = delete;
};
// Before there is anything to save: SIGTERM and SIGUSR1 end this process at once, with this exit code. So does an
// earlier SIGUSR1.
void end_when_asked(int code);
// As before `end_when_asked`, which was called.
void end_as_ever();

// While it lives, the first such signal is noted. A second one from a user, more than a second later, ends the process
// as usual. SIGUSR1 gives notice: neither it nor the first signal after it ends the process. A SIGHUP or SIGPIPE that
// was ignored stays so. One at a time.
//
// With `answers`, who asks by SIGINT or SIGTERM is told at once that it was heard: on the terminal, in place of the
// line that is redrawn there, or else on standard error.
class StopRequest {
 public:
  explicit StopRequest(bool answers = false);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // The signal that came, 0 for none.
  int signal() const;

 private:
  static constexpr std::array kNumbers{SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGPIPE};

  std::array<struct sigaction, kNumbers.size()> previous_{};
};

}  // namespace trainer
