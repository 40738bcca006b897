// LibTorch's default generator of the CPU, one for each rank where ranks are threads.
//
// A process has one default generator, and ranks that drew from it in turn would get each other's numbers. Test
// programs define LibTorch's function that returns it, so that LibTorch and the library call this one.
#pragma once

#include <ATen/core/Generator.h>

namespace fsdp::testing {

// While it lives, the calling thread has a default generator of its own, with LibTorch's first seed.
class RankGenerator {
 public:
  RankGenerator();
  ~RankGenerator();
  RankGenerator(const RankGenerator&) = delete;
  RankGenerator& operator=(const RankGenerator&) = delete;

 private:
  at::Generator generator_;
};

}  // namespace fsdp::testing
