// A limit on the size of files (ulimit -f), for a scope.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstddef>

namespace fsdp::testing {

// For as long as it lives, no file of this process may be longer.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(size_t bytes) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace fsdp::testing
