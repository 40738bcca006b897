// Starts tests without LibTorch.
#include "support/run_tests.h"

int main(int argc, char** argv) { return fsdp::testing::run_tests(argc, argv); }
