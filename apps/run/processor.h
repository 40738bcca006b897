// The processor, as far as training depends on it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trainer {

struct Processor {
  std::string model = {};                  // empty: the kernel does not say
  int64_t cores = 0;                       // that the kernel shows, counted as it does: hyper-threads are two
  int64_t usable = 0;                      // on which this process may run
  double quota = 0;                        // cores whose time a control group allows; 0: no limit
  std::vector<std::string> features = {};  // those of the kernel's names that matter here

  double available() const;      // cores: the usable ones, or their quota if that is less
  bool has_vectors() const;      // instructions for wide vectors
  bool multiplies_bf16() const;  // instructions for products of bf16 numbers
  // Neither these nor AVX-512, with which LibTorch widens bf16 numbers: it multiplies them one by one. False where the
  // kernel names no features.
  bool is_slow_in_bf16() const;
};

// `root` is where proc and the control groups are mounted.
Processor read_processor(const std::filesystem::path& root = "/");

}  // namespace trainer
