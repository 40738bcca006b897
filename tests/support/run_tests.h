// What each test program does: lists its cases for ctest (cmake/AddTests.cmake), or runs those of its arguments.
#pragma once

#include <gmock/gmock.h>

#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>

namespace fsdp::testing {

// The folder of tests/ that the file is in.
inline std::string room_of(const std::filesystem::path& file) {
  std::string room;
  for (auto part = file.begin(); part != file.end(); ++part) {
    if (*part == "tests" && std::next(part) != file.end()) room = std::next(part)->string();
  }
  return room;
}

// A line for each case: its room, its suite and its name.
inline void list_cases() {
  const auto& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const ::testing::TestInfo& one = *suite.GetTestInfo(j);
      std::printf("%s %s %s\n", room_of(one.file()).c_str(), suite.name(), one.name());
    }
  }
}

// Returns 77 where some tests were skipped and none failed: so ctest knows (SKIP_RETURN_CODE).
inline int run_tests(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  if (argc == 2 && std::string_view(argv[1]) == "--list") {
    list_cases();
    return 0;
  }
  const int failed = RUN_ALL_TESTS();
  const bool skipped = ::testing::UnitTest::GetInstance()->skipped_test_count() > 0;
  return failed == 0 && skipped ? 77 : failed;
}

}  // namespace fsdp::testing
