// Starts the tests of one room. Ends with 77 where some were skipped and none failed: so ctest knows
// (SKIP_RETURN_CODE).
#include <gmock/gmock.h>

#include "support/fork_server.h"

int main(int argc, char** argv) {
  fsdp::testing::serve_forks(argc, argv);
  testing::InitGoogleMock(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  const bool skipped = testing::UnitTest::GetInstance()->skipped_test_count() > 0;
  return failed == 0 && skipped ? 77 : failed;
}
