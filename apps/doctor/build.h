// The sources and tools of this program's build.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/finding.h"

namespace trainer {

struct Build {
  std::string version = {}, torch_version = {}, compiler = {};
  std::string type = {};  // CMake's: "Release"
  bool has_gloo = false, has_nccl = false;
  std::string sentencepiece_problem = {};  // empty: it is there
  bool has_tokenizers = false;             // the Python that reads tokenizers of Hugging Face
};

// All but the version of LibTorch. Starts a Python, and so a process.
Build read_build();

std::vector<Finding> version_findings(const Build& build);

// `gpus`: that LibTorch sees. `is_gpu_there`: whether the kernel has one of NVIDIA's.
std::vector<Finding> backend_findings(const Build& build, int64_t gpus, bool is_gpu_there);

}  // namespace trainer
