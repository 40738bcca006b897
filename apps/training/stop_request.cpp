#include "training/stop_request.h"

#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "console/terminal.h"

namespace trainer {

namespace {

// All that a signal's handler may touch.
volatile std::sig_atomic_t received = 0;
timespec received_at;
volatile std::sig_atomic_t noticed = 0;  // SIGUSR1, while nothing else handles it
const char* answer = nullptr;            // null: nothing is said
int answer_descriptor = STDERR_FILENO;

void say_that_it_was_heard() {
  if (answer == nullptr) return;
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(answer_descriptor, answer, std::strlen(answer));
  errno = error;
}

double seconds_since(const timespec& then) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);  // one of the calls that a handler may make
  return static_cast<double>(now.tv_sec - then.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec - then.tv_nsec);
}

// Every further unread line brings one more SIGPIPE. It is no user's request, and does not count as a second one. Nor
// does the notice that a batch system gives some time before it sends SIGTERM.
bool asks_once(int number) { return number == SIGPIPE || number == SIGUSR1; }

// Who asks a whole group of processes asks a rank twice, at once: by itself, and through its launcher, which sends
// SIGTERM for Ctrl-C too; which of them is handled first is open. A later signal is deliberate.
void note(int number) {
  constexpr double kSameRequest = 1;  // seconds
  if (received != 0 && asks_once(number)) return;
  if (received == 0 || asks_once(received)) {
    clock_gettime(CLOCK_MONOTONIC, &received_at);
    received = number;
    if (number == SIGINT || number == SIGTERM) say_that_it_was_heard();
  } else if (seconds_since(received_at) > kSameRequest) {
    std::signal(number, SIG_DFL);
    std::raise(number);
  } else if (number == SIGINT) {
    received = number;
  }
}

volatile std::sig_atomic_t code_when_asked = 0;
constexpr std::array kPreemptions{SIGTERM, SIGUSR1};
std::array<struct sigaction, kPreemptions.size()> before_asking{};

struct sigaction noting() {
  struct sigaction action {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // reads and writes of the loop go on
  return action;
}

}  // namespace

void expect_notice() {
  struct sigaction action {};
  action.sa_handler = [](int) { noticed = 1; };
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
}

namespace {

void mask_notice(int how) {
  sigset_t notice;
  sigemptyset(&notice);
  sigaddset(&notice, SIGUSR1);
  sigprocmask(how, &notice, nullptr);
}

}  // namespace

HeldNotice::HeldNotice() {
  mask_notice(SIG_BLOCK);
  if (noticed != 0) raise(SIGUSR1);
}

HeldNotice::~HeldNotice() { mask_notice(SIG_UNBLOCK); }

void end_when_asked(int code) {
  code_when_asked = code;
  struct sigaction action {};
  action.sa_handler = [](int) { _exit(code_when_asked); };
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kPreemptions.size(); ++i) sigaction(kPreemptions[i], &action, &before_asking[i]);
  if (noticed != 0) _exit(code);
}

void end_as_ever() {
  for (size_t i = 0; i < kPreemptions.size(); ++i) sigaction(kPreemptions[i], &before_asking[i], nullptr);
}

StopRequest::StopRequest(bool answers) {
  constexpr const char* kAnswer = "stopping after this step; again to quit without saving\n";
  constexpr const char* kAnswerInPlace = "\r\033[Jstopping after this step; again to quit without saving\n";
  const bool in_place = standard_output().interactive;
  received = noticed != 0 ? SIGUSR1 : 0;
  answer = !answers ? nullptr : in_place ? kAnswerInPlace : kAnswer;
  answer_descriptor = in_place ? STDOUT_FILENO : STDERR_FILENO;
  const struct sigaction action = noting();
  for (size_t i = 0; i < kNumbers.size(); ++i) {
    const int number = kNumbers[i];
    sigaction(number, nullptr, &previous_[i]);
    // Who starts a program under nohup wants it to outlive the terminal.
    const bool stays_ignored = (number == SIGHUP || number == SIGPIPE) && previous_[i].sa_handler == SIG_IGN;
    if (!stays_ignored) sigaction(number, &action, nullptr);
  }
}

StopRequest::~StopRequest() {
  for (size_t i = 0; i < kNumbers.size(); ++i) sigaction(kNumbers[i], &previous_[i], nullptr);
}

int StopRequest::signal() const { return received; }

}  // namespace trainer
