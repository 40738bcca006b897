// A use of the device's memory by the host: the report, before the process ends by the fault. The program's own handler
// (src/interpose/write_fault.h) may stand before this one, and passes on what is not its own.
#include <execinfo.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "device/arena.h"
#include "device/operator_in_flight.h"
#include "device/pinned.h"
#include "device/places.h"

namespace fsdp::testing::device {

namespace {

constexpr int kFrames = 48;

thread_local const char* operator_in_flight = nullptr;
struct sigaction handler_before;

void say(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

void report_fault(const void* address) {
  char number[64];
  std::snprintf(number, sizeof number, "%p", address);
  say("the tests' device: the host uses memory of the device, at ");
  say(number);
  say(operator_in_flight != nullptr ? ", inside of the operator " : ", outside of the device's operators");
  if (operator_in_flight != nullptr) say(operator_in_flight);
  say(".\nOn a GPU this is signal 11. Copy the tensor to the CPU, or use an operator. It was used in\n");
  void* frames[kFrames];
  const int count = backtrace(frames, kFrames);
  say(text_of_frames(frames, static_cast<size_t>(count)).c_str());  // the process ends: it may take memory
}

void pass_fault_on(int signal, siginfo_t* info, void* context) {
  if ((handler_before.sa_flags & SA_SIGINFO) != 0) return handler_before.sa_sigaction(signal, info, context);
  if (handler_before.sa_handler != SIG_IGN && handler_before.sa_handler != SIG_DFL)
    return handler_before.sa_handler(signal);
  sigaction(signal, &handler_before, nullptr);
  if (info->si_code <= 0) raise(signal);
}

void on_device_fault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (info->si_code == SEGV_ACCERR && is_on_device(info->si_addr)) report_fault(info->si_addr);
  const bool goes_on = info->si_code == SEGV_ACCERR && note_pinned_fault(info->si_addr);
  errno = error;
  if (!goes_on) pass_fault_on(signal, info, context);
}

struct InstallHandler {
  InstallHandler() {
    void* frame[1];
    backtrace(frame, 1);  // which loads what it needs the first time
    struct sigaction ours = {};
    ours.sa_sigaction = on_device_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    sigaction(SIGSEGV, &ours, &handler_before);
  }
} const install_handler;

}  // namespace

OperatorInFlight::OperatorInFlight(const char* name) : before_(operator_in_flight) { operator_in_flight = name; }
OperatorInFlight::~OperatorInFlight() { operator_in_flight = before_; }

}  // namespace fsdp::testing::device
