// Starts tests that use LibTorch.
#include "base/pace.h"
#include "support/fork_server.h"
#include "support/pace.h"
#include "support/run_tests.h"

int main(int argc, char** argv) {
  fsdp::divide_waits_by(fsdp::testing::kPace);
  fsdp::testing::serve_forks(argc, argv);
  return fsdp::testing::run_tests(argc, argv);
}
