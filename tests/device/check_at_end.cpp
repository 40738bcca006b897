// FSDP_TEST_DEVICE_CHECK: a program that has the device preloaded looks for missing waits from its start to its end.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "device/device.h"

namespace fsdp::testing::device {

namespace {

constexpr int kExitCode = 97;

void print_missing_waits() {
  const std::vector<std::string> all = missing_waits();
  for (const std::string& one : all) std::fputs(one.c_str(), stderr);
  if (!all.empty()) _exit(kExitCode);
}

struct CheckAtEnd {
  CheckAtEnd() {
    if (std::getenv("FSDP_TEST_DEVICE_CHECK") == nullptr) return;
    start_log();
    std::atexit(&print_missing_waits);
  }
} const check_at_end;

}  // namespace

}  // namespace fsdp::testing::device
