// Pages that the system had to find for this process.
#pragma once

#include <sys/prctl.h>
#include <sys/resource.h>

#include <cstdint>

namespace fsdp::testing {

// Of `function`, without reads from a disk. From then on the process has no huge pages, so the number is one of 4 KiB
// each.
template <typename Function>
int64_t page_faults_of(Function function) {
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  const auto faults = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<int64_t>(usage.ru_minflt);
  };
  const int64_t before = faults();
  function();
  return faults() - before;
}

}  // namespace fsdp::testing
