// Tests that need a tool which a machine may lack are skipped there, and fail where FSDP_TEST_REQUIRE_ALL is set: on a
// machine that is to check everything, a test that is skipped is one that nobody has seen pass.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace fsdp::testing {

inline bool all_is_required() {
  const char* value = std::getenv("FSDP_TEST_REQUIRE_ALL");
  return value != nullptr && std::string(value) != "";
}

}  // namespace fsdp::testing

// Ends the test, or in SetUp() each test of the suite; `lacking` says what is not there and how to get it.
#define FSDP_SKIP_TEST(lacking)                                                                       \
  do {                                                                                                \
    if (::fsdp::testing::all_is_required()) FAIL() << (lacking) << " (FSDP_TEST_REQUIRE_ALL is set)"; \
    GTEST_SKIP() << (lacking);                                                                        \
  } while (false)
